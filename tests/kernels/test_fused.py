"""Fused layers against the plain ones and transformers' own: states, gradients, dropout, weights that change."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import BertConfig, BertModel, RobertaConfig, RobertaModel

from devices import DEVICE, use_triton

use_triton()

from opencse.kernels.fused import SLOTS, Copies, Setting, copied, fused_layer  # noqa: E402
from opencse.kernels.packed import Block, pack  # noqa: E402
from opencse.kernels.padded import FUSED, LayerWeights, Rates, layer_states, padded_states  # noqa: E402

ROWS, LENGTH, HIDDEN, HEADS = 3, 16, 32, 2
KINDS = {"bert": (BertConfig, BertModel), "roberta": (RobertaConfig, RobertaModel)}


def backbone(kind: str = "bert", layers: int = 2) -> Any:
    config, model = KINDS[kind]
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "vocab_size": 90,
        "hidden_size": HIDDEN,
        "num_hidden_layers": layers,
        "num_attention_heads": HEADS,
        "intermediate_size": 48,
        "max_position_embeddings": 60,
    }
    made = model(config(**sizes)).to(DEVICE).eval()
    for name, weight in made.named_parameters():  # weights of about zero would hide their use
        torch.nn.init.normal_(weight, mean=float("LayerNorm.weight" in name), std=0.3)
    return made


def batch(model: Any, length: int = LENGTH) -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([length, 3, length // 2], device=DEVICE)
    mask = torch.arange(length, device=DEVICE) < lengths[:, None]
    ids = torch.randint(5, 90, (ROWS, length), device=DEVICE)
    return ids.masked_fill(~mask, model.config.pad_token_id), mask.long()


def block() -> Block:
    (only,) = pack(backbone(layers=1)).blocks
    return only


def parameters(of: Block) -> list[Tensor]:
    return [weight for pair in LayerWeights.of(of) for weight in pair]


def setting(mask: Tensor, hidden: float = 0.0, attention: float = 0.0) -> Setting:
    seeds = torch.arange(5, 5 + SLOTS, device=DEVICE) * 2**35 if hidden or attention else None
    return Setting(mask, HEADS, hidden, attention, 1e-12, seeds)


def states(of: Block, x: Tensor, mask: Tensor, first: bool = False, **rates: float) -> Tensor:
    (copies,) = copied([of], x.dtype)
    return fused_layer(x, of, copies, setting(mask, **rates), 0, first)


def plain(of: Block, x: Tensor, mask: Tensor, first: bool = False) -> Tensor:
    bias = torch.zeros(mask.shape, device=DEVICE).masked_fill(mask == 0, -torch.inf)[:, None, None]
    return layer_states(x, bias, LayerWeights.of(of), Rates(HEADS, 0.0, 0.0, 1e-12), first)


def layer_inputs() -> tuple[Block, Tensor, Tensor]:
    of = block()
    _, mask = batch(backbone())
    return of, torch.randn(ROWS, LENGTH, HIDDEN, device=DEVICE, requires_grad=True), mask


def assert_close(found: Sequence[Tensor | None], wanted: Sequence[Tensor | None], share: float = 1e-4) -> None:
    """Equal up to ``share`` of the largest number; of the keys' bias, which no score depends on, up to as much of 1."""
    for one, other in zip(found, wanted, strict=True):
        assert (one is None) is (other is None)
        if one is not None and other is not None:
            assert one.dtype == other.dtype
            assert float((one - other).detach().abs().max()) <= share * max(float(other.detach().abs().max()), 1.0)


@pytest.mark.parametrize("first", [False, True])
def test_a_layer_and_its_gradients_are_the_plain_ones(first: bool) -> None:
    of, x, mask = layer_inputs()
    found, wanted = states(of, x, mask, first), plain(of, x, mask, first)
    real = mask[:, :1].bool() if first else mask.bool()
    assert_close([found[real]], [wanted[real]], 1e-5)
    weight = torch.randn(HIDDEN, device=DEVICE)
    losses = [(one[real] * weight).pow(2).sum() for one in (found, wanted)]
    ours, theirs = (torch.autograd.grad(loss, [x, *parameters(of)]) for loss in losses)
    assert_close(ours, theirs)
    assert sum(float(one.abs().max()) > 0.1 for one in theirs) >= len(theirs) - 1


def test_frozen_weights_and_inputs_have_no_gradient_and_change_no_other() -> None:
    of, x, mask = layer_inputs()
    wanted = torch.autograd.grad(plain(of, x, mask)[mask.bool()].pow(3).sum(), [x, *parameters(of)])
    frozen = [of.key.weight, of.attention.bias, of.inner.weight, of.outer_norm.weight, of.query.bias]
    for one in frozen:
        one.requires_grad_(False)
    inputs = [x, *parameters(of)]
    for at_all in (True, False):
        torch.autograd.backward(states(of, x.requires_grad_(at_all), mask)[mask.bool()].pow(3).sum())
        for one, gradient in zip(inputs, wanted, strict=True):
            assert (one.grad is None) is (not one.requires_grad)
            if one.grad is not None:
                assert_close([one.grad], [gradient])
            one.grad = None
    for one in parameters(of):
        one.requires_grad_(False)
    assert not states(of, x, mask).requires_grad
    with torch.no_grad():
        assert_close([states(of, x.requires_grad_(), mask)], [states(of, x, mask).detach()], 0)


def test_copies_are_of_the_current_weights() -> None:
    model = backbone()
    ids, mask = batch(model)
    before = padded_states(model, ids, mask, [2], fused=True)[2]
    with torch.no_grad():
        model.encoder.layer[1].attention.self.key.weight.mul_(3)
        model.encoder.layer[0].attention.self.query.bias.add_(1)
        after = padded_states(model, ids, mask, [2], fused=True)[2]
        wanted = padded_states(model, ids, mask, [2])[2]
    assert_close([after[mask.bool()]], [wanted[mask.bool()]], 1e-5)
    assert float((after - before.detach()).abs().max()) > 0.01
    copies = copied(pack(model).blocks, torch.bfloat16)
    for made, of in zip(copies, pack(model).blocks, strict=True):
        joined = torch.cat([part.weight for part in (of.query, of.key, of.value)])
        biases = torch.cat([part.bias for part in (of.query, of.key, of.value)])
        whole = Copies(biases, *(one.bfloat16() for one in (joined, *(part.weight for part in of.linears[3:]))))
        assert all(torch.equal(a, b) for a, b in zip(made, whole, strict=True))


def test_gradients_of_several_forwards_add_up() -> None:
    model = backbone()
    (ids, mask), (more, other) = batch(model), batch(model, 8)

    def gradients(fused: bool) -> list[Tensor]:
        model.zero_grad()
        one = padded_states(model, ids, mask, [2], fused=fused)[2][mask.bool()].pow(3).sum()
        two = padded_states(model, more, other, [2], fused=fused, first_only=True)[2].pow(3).sum()
        torch.autograd.backward(one + two)
        torch.autograd.backward(padded_states(model, more, other, [1], fused=fused)[1][other.bool()].pow(3).sum())
        return [weight.grad for weight in model.encoder.parameters()]

    assert_close(gradients(True), gradients(False))


@pytest.mark.parametrize("first", [False, True])
def test_gradients_with_dropout_are_those_of_the_drawn_function(first: bool) -> None:
    of, x, mask = layer_inputs()
    weight = torch.randn(HIDDEN, device=DEVICE)

    def loss() -> Tensor:
        drawn = states(of, x, mask, first, hidden=0.2, attention=0.3)
        return (drawn[mask[:, : drawn.shape[1]].bool()] * weight).sum()

    inputs = [x, *parameters(of)]
    value = loss()
    gradients = torch.autograd.grad(value, inputs)
    assert torch.equal(loss(), value)
    undropped = plain(of, x, mask, first).detach()
    assert float((states(of, x, mask, first, hidden=0.2, attention=0.3).detach() - undropped).abs().max()) > 0.5
    for one, gradient in zip(inputs, gradients, strict=True):
        direction = gradient / gradient.norm().clamp_min(1e-3)
        step = 1e-2
        with torch.no_grad():
            one.add_(step * direction)
            above = loss()
            one.sub_(2 * step * direction)
            below = loss()
            one.add_(step * direction)
        slope = float(above - below) / (2 * step)
        assert slope == pytest.approx(float((gradient * direction).sum()), rel=0.02, abs=0.02)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [16, 13])
def test_states_and_gradients_are_those_of_transformers(kind: str, length: int) -> None:
    model = backbone(kind)
    ids, mask = batch(model, length)
    theirs = model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
    ours = padded_states(model, ids, mask, [0, 1, 2], fused=True)
    assert "_Fed" in str(ours[2].grad_fn and ours[1].grad_fn.next_functions)  # type: ignore[union-attr]
    for layer, found in ours.items():
        assert_close([found[mask.bool()]], [theirs[layer][mask.bool()]], 1e-5)
    (first,) = padded_states(model, ids, mask, [2], first_only=True, fused=True).values()
    assert_close([first], [theirs[2][:, :1]], 1e-5)
    weights = list(model.parameters())
    of_ours = torch.autograd.grad(first.pow(3).sum(), weights, allow_unused=True)
    of_theirs = torch.autograd.grad(theirs[2][:, :1].pow(3).sum(), weights, allow_unused=True)
    assert_close(of_ours, of_theirs)


def test_dropout_is_drawn_again_each_time_and_at_the_models_rates() -> None:
    model = backbone()
    ids, mask = batch(model)
    torch.manual_seed(3)
    drawn = [padded_states(model, ids, mask, [2], dropout=True, fused=True)[2].detach() for _ in range(6)]
    torch.manual_seed(3)
    assert torch.equal(padded_states(model, ids, mask, [2], dropout=True, fused=True)[2], drawn[0])
    assert all(float((one - other).abs().max()) > 0.1 for one, other in pairwise(drawn))
    expected = padded_states(model, ids, mask, [2])[2].detach()
    mean = torch.stack(drawn).mean(dim=0)
    assert (mean - expected)[mask.bool()].norm() < 0.7 * (drawn[0] - expected)[mask.bool()].norm()
    model.config.hidden_dropout_prob = model.config.attention_probs_dropout_prob = 0.0
    assert torch.equal(
        padded_states(model, ids, mask, [2], dropout=True, fused=True)[2],
        padded_states(model, ids, mask, [2], fused=True)[2],
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_gives_gradients_in_the_weights_type(dtype: torch.dtype) -> None:
    of, x, mask = layer_inputs()
    half = x.detach().to(dtype).requires_grad_()
    found = states(of, half, mask)
    assert found.dtype == dtype
    weight = torch.randn(HIDDEN, device=DEVICE)
    inputs = parameters(of)
    ours = torch.autograd.grad((found.float() * weight)[mask.bool()].sum(), [half, *inputs])
    wanted = torch.autograd.grad((plain(of, x, mask) * weight)[mask.bool()].sum(), [x, *inputs])
    assert ours[0].dtype == dtype
    assert {one.dtype for one in ours[1:]} == {torch.float32}
    for one, other in zip(ours, wanted, strict=True):
        if float(other.norm()) > 1e-2:
            assert float((one.float() - other).norm() / other.norm()) < 8 * torch.finfo(dtype).eps


def test_what_does_not_fit_is_computed_plainly() -> None:
    model = backbone()
    ids, mask = batch(model, FUSED[torch.float32] + 8)
    long, wanted = (padded_states(model, ids, mask, [2], fused=fused)[2] for fused in (True, False))
    assert torch.equal(long, wanted)
    ids, mask = ids[:, :16], mask[:, :16]
    short, other = (padded_states(model, ids, mask, [2], fused=fused)[2] for fused in (True, False))
    assert not torch.equal(short, other)


COMPILED = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from opencse.kernels import triton_attention, triton_rows

sizes = {"HIDDEN": 128, "SIZE": 32, "TILE": 32, "WIDE": 32, "RATE": 0.1, "EPS": 1e-12}
rows = {"WIDTH": 96, "ROWS": 4, "COLUMNS": 64}
kinds = {"mask": "*i64", "seeds": "*i64", "sums": "*fp32", "biases": "*fp32", "statistics": "*fp32"}
numbers = ("slot", "length", "queries", "rows", "programs")
for module in (triton_attention, triton_rows):
    for name in ("_attend", "_attend_back", "_norm", "_norm_back", "_gelu", "_gelu_back"):
        kernel = getattr(module, name, None)
        if kernel is None:
            continue
        constants = {**sizes, **rows} | ({"TILE": 128} if "norm" in name else {})
        constants = {key: value for key, value in constants.items() if key in kernel.arg_names}
        signature = {key: kinds.get(key, "i32" if key in numbers else "*bf16") for key in kernel.arg_names}
        signature |= dict.fromkeys(constants, "constexpr")
        made = triton.compile(ASTSource(kernel, signature, constants), target=GPUTarget("cuda", 80, 32))
        print(name, len(made.asm["ptx"]) > 1_000)
"""


def test_all_kernels_compile_for_a_gpu(tmp_path: Any) -> None:
    """Without one: the interpreter takes more than the compiler does."""
    names = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    names.pop("TRITON_INTERPRET", None)
    done = subprocess.run([sys.executable, "-c", COMPILED], env=names, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert done.stdout.split("\n")[:-1] == [
        f"{name} True" for name in ("_attend", "_attend_back", "_norm", "_norm_back", "_gelu", "_gelu_back")
    ]
