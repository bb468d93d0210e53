"""Fused layers and Triton's kernels against plain and double-precision ones: values, gradients, dropout."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from transformers import BertConfig, BertModel, RobertaConfig, RobertaModel

from devices import DEVICE, use_triton

use_triton()

from opencse.kernels import triton_kernels  # noqa: E402
from opencse.kernels.gpu import (  # noqa: E402
    FUSED,
    SLOTS,
    Setting,
    copied,
    fused_layer,
    layer_states,
    padded_states,
)
from opencse.kernels.packed import Block, pack  # noqa: E402
from opencse.kernels.triton_kernels import (  # noqa: E402
    SeededDropout,
    added_norm,
    added_norm_gradients,
    attention,
    attention_gradients,
    gelu,
    gelu_gradients,
)

ROWS, HEADS = 3, 2
SEEDS = torch.tensor([7, 2**50 + 9], device=DEVICE)


def inputs(length: int, size: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """The joined queries, keys and values, their biases, and a mask with texts of all, half and one of the ids."""
    torch.manual_seed(length)
    joined = torch.randn(ROWS, length, 3 * HEADS * size, device=DEVICE).to(dtype)
    lengths = torch.tensor([length, max(1, length // 2), 1], device=DEVICE)
    return joined, torch.randn(3 * HEADS * size, device=DEVICE), torch.arange(length, device=DEVICE) < lengths[:, None]


def expected(joined: Tensor, biases: Tensor, mask: Tensor, queries: int, kept: Tensor | None, rate: float) -> Tensor:
    size = joined.shape[2] // 3 // HEADS
    parts = (joined + biases).chunk(3, dim=2)
    rows = []
    for row in range(ROWS):
        heads = []
        for head in range(HEADS):
            q, k, v = (part[row, :, head * size : (head + 1) * size] for part in parts)
            scores = (q[:queries] @ k.T) / size**0.5
            weights = scores.masked_fill(~mask[row], -torch.inf).softmax(dim=1)
            if kept is not None:
                weights = weights * kept[row, head, :queries] / (1 - rate)
            heads.append(weights @ v)
        rows.append(torch.cat(heads, dim=1))
    return torch.stack(rows)


def kept_weights(length: int, size: int, rate: float) -> Tensor:
    """(ROWS, HEADS, length, length), 1 where dropout keeps a weight: weights are equal, and value j is 1 at j alone."""
    joined = torch.zeros(ROWS, length, 3, HEADS, size, device=DEVICE)
    joined[:, :, 2] = torch.eye(length, size, device=DEVICE)[:, None]
    flat = joined.view(ROWS, length, -1)
    draws = SeededDropout(rate, SEEDS, 1)
    mask = torch.ones(ROWS, length, device=DEVICE)
    mixed = attention(flat, torch.zeros(flat.shape[2], device=DEVICE), mask, HEADS, draws, length)
    return (mixed.view(ROWS, length, HEADS, size)[..., :length] > 0).transpose(1, 2).double()


@pytest.mark.parametrize(
    ("length", "size", "rate", "first"),
    [
        (1, 16, 0.0, False),
        (8, 32, 0.0, False),
        (13, 16, 0.3, False),
        (13, 24, 0.3, True),
        (32, 64, 0.1, False),
        (32, 64, 0.0, True),
        (40, 8, 0.0, False),
    ],
)
def test_values_and_gradients(length: int, size: int, rate: float, first: bool) -> None:
    joined, biases, mask = inputs(length, size)
    queries = 1 if first else length
    kept = kept_weights(length, size, rate) if rate else None
    if kept is not None:
        assert abs(float(kept.mean()) - (1 - rate)) < 4 * (rate * (1 - rate) / kept.numel()) ** 0.5
        assert not torch.equal(kept[0, 0], kept[0, 1])
        assert not torch.equal(kept[0], kept[1])
    exact = [one.double().requires_grad_() for one in (joined, biases)]
    wanted = expected(exact[0], exact[1], mask, queries, kept, rate)
    gradient = torch.randn_like(wanted)
    of_joined, of_biases = torch.autograd.grad(wanted, exact, gradient)
    draws = SeededDropout(rate, SEEDS if rate else None, 1)
    found = attention(joined, biases, mask, HEADS, draws, queries)
    torch.testing.assert_close(found.double(), wanted, atol=3e-6, rtol=1e-5)
    ours, sums = attention_gradients(gradient.float(), joined, biases, mask, HEADS, draws)
    torch.testing.assert_close(ours.double(), of_joined, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(sums.double(), of_biases, atol=5e-5, rtol=1e-5)
    assert float(of_joined.abs().max()) > 0.1


ROWS_TRITON_DROPOUT, WIDTH = 64, 256


def kept(rate: float, seeds: list[int], place: int = 0) -> Tensor:
    """(ROWS, WIDTH), true where dropout keeps: of a row of zeros and constants LayerNorm raises the constants."""
    zeros, ones = torch.zeros(WIDTH, device=DEVICE), torch.ones(WIDTH, device=DEVICE)
    change = torch.ones(ROWS_TRITON_DROPOUT, WIDTH, device=DEVICE)
    draws = SeededDropout(rate, torch.tensor(seeds, device=DEVICE), place)
    return added_norm(torch.zeros_like(change), change, zeros, ones, zeros, 1e-12, draws)[0] > 0


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_the_share_is_the_rate_in_all_rows_and_columns(rate: float) -> None:
    mask = kept(rate, [123456789012345678]).double()
    spread = (rate * (1 - rate)) ** 0.5
    assert abs(float(mask.mean()) - (1 - rate)) < 4 * spread / (ROWS_TRITON_DROPOUT * WIDTH) ** 0.5
    assert float((mask.mean(dim=1) - (1 - rate)).abs().max()) < 4.5 * spread / WIDTH**0.5
    assert float((mask.mean(dim=0) - (1 - rate)).abs().max()) < 4.5 * spread / ROWS_TRITON_DROPOUT**0.5


def correlation(a: Tensor, b: Tensor) -> float:
    """Of two masks, in standard errors."""
    a, b = (one.double().flatten() for one in (a, b))
    return math.sqrt(len(a)) * torch.corrcoef(torch.stack([a, b]))[0, 1].item()


def test_masks_of_other_seeds_places_and_cells_are_independent() -> None:
    seeds = [2**61 + 5, 2**61 + 6, 5, 2**33 + 5]
    masks = [kept(0.3, seeds, place) for place in range(len(seeds))]
    assert torch.equal(masks[1], kept(0.3, [seeds[1]]))
    for number, one in enumerate(masks):
        for other in masks[:number]:
            assert abs(correlation(one, other)) < 4
        for shift in (1, 2, 32, WIDTH):
            flat = one.flatten()
            assert abs(correlation(flat[shift:], flat[:-shift])) < 4


SEEDS_TRITON_ROWS = torch.tensor([3, 2**40 + 1], device=DEVICE)
EPS = 1e-5


def close(found: Tensor, wanted: Tensor, atol: float = 1e-5) -> None:
    assert float(wanted.detach().abs().max()) > 0.1
    torch.testing.assert_close(found.double(), wanted, atol=atol, rtol=1e-5)


def few_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that compute several tiles each, the last of which is not full."""
    monkeypatch.setattr(triton_kernels, "NORM_CELLS", 256)
    monkeypatch.setattr(triton_kernels, "NORM_PROGRAMS", 3)
    monkeypatch.setattr(triton_kernels, "GELU_ROWS", 4)
    monkeypatch.setattr(triton_kernels, "GELU_PROGRAMS", 3)


@pytest.mark.parametrize(("rows", "width", "rate"), [(29, 48, 0.0), (29, 48, 0.25), (1, 64, 0.0), (7, 320, 0.25)])
def test_the_norm_of_a_sum(rows: int, width: int, rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    few_tiles(monkeypatch)
    torch.manual_seed(rows)
    x, change, gradient = (torch.randn(rows, width, device=DEVICE) + 0.5 for _ in range(3))
    change_bias, weight, bias = (torch.randn(width, device=DEVICE) for _ in range(3))
    draws = SeededDropout(rate, SEEDS_TRITON_ROWS if rate else None, 1)
    ones, zeros = torch.ones(width, device=DEVICE), torch.zeros(width, device=DEVICE)
    raised = added_norm(torch.zeros_like(x), torch.ones_like(x), zeros, ones, zeros, EPS, draws)[0] > 0
    kept = raised.double() / (1 - rate) if rate else torch.ones(rows, width, device=DEVICE, dtype=torch.double)
    assert not rate or abs(float(raised.double().mean()) - (1 - rate)) < 0.1
    exact = [one.double().requires_grad_() for one in (x, change, weight, bias, change_bias)]
    total = exact[0] + kept * (exact[1] + exact[4])
    wanted = functional.layer_norm(total, (width,), exact[2], exact[3], EPS)
    of_exact = torch.autograd.grad(wanted, exact, gradient.double())
    found, statistics = added_norm(x, change, change_bias, weight, bias, EPS, draws)
    close(found, wanted)
    of_x, of_change, sums = added_norm_gradients(gradient, x, change, change_bias, weight, statistics, draws)
    assert (of_x is of_change) is (rate == 0)
    for one, exactly in zip((of_x, of_change, *sums), of_exact, strict=True):
        close(one, exactly, atol=5e-5)
    again = added_norm_gradients(gradient, x, change, change_bias, weight, statistics, draws)
    assert torch.equal(again[2], sums)


@pytest.mark.parametrize(("rows", "width"), [(29, 48), (1, 200)])
def test_gelu(rows: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    few_tiles(monkeypatch)
    torch.manual_seed(rows)
    product, gradient = 2 * torch.randn(rows, width, device=DEVICE), torch.randn(rows, width, device=DEVICE)
    bias = torch.randn(width, device=DEVICE)
    exact = [one.double().requires_grad_() for one in (product, bias)]
    wanted = functional.gelu(exact[0] + exact[1])
    of_exact = torch.autograd.grad(wanted, exact, gradient.double())
    close(gelu(product, bias), wanted)
    for one, exactly in zip(gelu_gradients(gradient, product, bias), of_exact, strict=True):
        close(one, exactly, atol=5e-5)


ROWS_FUSED, LENGTH, HIDDEN, HEADS_FUSED = 3, 16, 32, 2
KINDS = {"bert": (BertConfig, BertModel), "roberta": (RobertaConfig, RobertaModel)}


def backbone(kind: str = "bert", layers: int = 2) -> Any:
    config, model = KINDS[kind]
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "vocab_size": 90,
        "hidden_size": HIDDEN,
        "num_hidden_layers": layers,
        "num_attention_heads": HEADS_FUSED,
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
    ids = torch.randint(5, 90, (ROWS_FUSED, length), device=DEVICE)
    return ids.masked_fill(~mask, model.config.pad_token_id), mask.long()


def block() -> Block:
    (only,) = pack(backbone(layers=1)).blocks
    return only


def parameters(of: Block) -> list[Tensor]:
    modules: list[Any] = [*of.linears, of.attention_norm, of.outer_norm]
    return [weight for one in modules for weight in (one.weight, one.bias)]


def setting(mask: Tensor, hidden: float = 0.0, attention: float = 0.0) -> Setting:
    seeds = torch.arange(5, 5 + SLOTS, device=DEVICE) * 2**35 if hidden or attention else None
    return Setting(mask, HEADS_FUSED, hidden, attention, 1e-12, seeds)


def states(of: Block, x: Tensor, mask: Tensor, first: bool = False, **rates: float) -> Tensor:
    (copies,) = copied([of], x.dtype)
    return fused_layer(x, of, copies, setting(mask, **rates), 0, first)


def plain(of: Block, x: Tensor, mask: Tensor, first: bool = False) -> Tensor:
    bias = torch.zeros(mask.shape, device=DEVICE).masked_fill(mask == 0, -torch.inf)[:, None, None]
    return layer_states(x, bias, of, Setting(mask, HEADS_FUSED, 0.0, 0.0, 1e-12), first)


def layer_inputs() -> tuple[Block, Tensor, Tensor]:
    of = block()
    _, mask = batch(backbone())
    return of, torch.randn(ROWS_FUSED, LENGTH, HIDDEN, device=DEVICE, requires_grad=True), mask


def assert_close(found: Sequence[Tensor | None], wanted: Sequence[Tensor | None], share: float = 1e-4) -> None:
    """Equal up to ``share`` of the largest number; of the keys' bias, which no score depends on, up to as much of 1."""
    for one, other in zip(found, wanted, strict=True):
        assert (one is None) is (other is None)
        if one is not None and other is not None:
            assert one.dtype == other.dtype
            assert float((one - other).detach().abs().max()) <= share * max(float(other.detach().abs().max()), 1.0)


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
from opencse.kernels import triton_kernels

sizes = {"HIDDEN": 128, "SIZE": 32, "TILE": 32, "WIDE": 32, "RATE": 0.1, "EPS": 1e-12}
rows = {"WIDTH": 96, "ROWS": 4, "COLUMNS": 64}
kinds = {"mask": "*i64", "seeds": "*i64", "sums": "*fp32", "biases": "*fp32", "statistics": "*fp32"}
numbers = ("slot", "length", "queries", "rows", "programs")
for name in ("_attend", "_attend_back", "_norm", "_norm_back", "_gelu", "_gelu_back"):
    kernel = getattr(triton_kernels, name)
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
