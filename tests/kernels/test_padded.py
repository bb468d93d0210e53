"""The padded forward against transformers' own: states, gradients, changed inputs, dropout."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import BertConfig, BertModel, MPNetConfig, MPNetModel, RobertaConfig, RobertaModel

from devices import DEVICE
from opencse.kernels.padded import MULTIPLE, padded_states, unfit_for_fusing, unfit_for_triton

KINDS = {"bert": (BertConfig, BertModel), "roberta": (RobertaConfig, RobertaModel), "mpnet": (MPNetConfig, MPNetModel)}
ROWS, HIDDEN = 5, 32
SIZES: dict[str, Any] = {
    "vocab_size": 90,
    "hidden_size": HIDDEN,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 170,
}


def backbone(kind: str, **sizes: int) -> Any:
    config, model = KINDS[kind]
    torch.manual_seed(0)
    return model(config(**SIZES | sizes)).to(DEVICE).eval()


def batch(model: Any, length: int) -> tuple[Tensor, Tensor]:
    mask = (
        torch.arange(length, device=DEVICE) < torch.tensor([length, 3, length // 2, length, 4], device=DEVICE)[:, None]
    )
    ids = torch.randint(5, 90, (ROWS, length), device=DEVICE)
    return ids.masked_fill(~mask, model.config.pad_token_id), mask.long()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [16, 13, 150])
def test_states_and_gradients_are_those_of_transformers(kind: str, length: int) -> None:
    model = backbone(kind)
    ids, mask = batch(model, length)
    theirs = model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
    ours = padded_states(model, ids, mask, [0, 2, 3])
    real = mask.bool()
    for layer, states in ours.items():
        assert states.shape == (ROWS, length, HIDDEN)
        torch.testing.assert_close(states[real], theirs[layer][real], atol=2e-5, rtol=0)
    (first,) = padded_states(model, ids, mask, [3], first_only=True).values()
    torch.testing.assert_close(first, theirs[3][:, :1], atol=2e-5, rtol=0)
    weights = [p for p in model.parameters() if p.requires_grad]
    of_ours = torch.autograd.grad(first.pow(3).sum(), weights, allow_unused=True)
    of_theirs = torch.autograd.grad(theirs[3][:, :1].pow(3).sum(), weights, allow_unused=True)
    for a, b in zip(of_ours, of_theirs, strict=True):
        assert (a is None) is (b is None)
        if a is not None and b is not None:
            torch.testing.assert_close(a, b, atol=2e-4, rtol=1e-3)


@pytest.mark.parametrize("length", [40, 150])
def test_bf16_is_near_float32(length: int) -> None:
    """Torch's fused attention, which takes over for long texts, misreads a mask of another type than the vectors."""
    model = backbone("bert")
    ids, mask = batch(model, length)
    exact, near = (padded_states(model, ids, mask, [3], dtype=dtype)[3] for dtype in (torch.float32, torch.bfloat16))
    assert near.dtype == torch.bfloat16
    assert (exact - near.float())[mask.bool()].abs().max() < 0.1


def test_inputs_that_are_changed_or_replaced() -> None:
    model = backbone("bert")
    ids, mask = batch(model, 13)
    shift, leading = torch.randn(ROWS, 13, HIDDEN, device=DEVICE), torch.randn(ROWS, HIDDEN, device=DEVICE)
    (states,) = padded_states(model, ids, mask, [3], disturb=lambda words: words + shift).values()
    words = model.embeddings.word_embeddings(ids) + shift
    expected = model(inputs_embeds=words, attention_mask=mask).last_hidden_state
    torch.testing.assert_close(states[mask.bool()], expected[mask.bool()], atol=2e-5, rtol=0)
    (replaced,) = padded_states(model, ids, mask, [0], leading=leading).values()
    assert torch.equal(replaced[:, 0], leading)


def test_dropout_is_drawn_at_the_models_rates_and_again_each_time() -> None:
    model = backbone("bert")
    ids, mask = batch(model, 13)
    torch.manual_seed(3)
    one, other = (padded_states(model, ids, mask, [3], dropout=True)[3] for _ in range(2))
    torch.manual_seed(3)
    assert torch.equal(padded_states(model, ids, mask, [3], dropout=True)[3], one)
    assert (one - other).abs().max() > 0.1
    model.config.hidden_dropout_prob = model.config.attention_probs_dropout_prob = 0.0
    plain = padded_states(model, ids, mask, [3])[3]
    assert torch.equal(padded_states(model, ids, mask, [3], dropout=True)[3], plain)
    many = torch.full((400, MULTIPLE), 7, device=DEVICE)
    model.config.hidden_dropout_prob = 0.25
    (dropped,) = padded_states(model, many, torch.ones_like(many), [0], dropout=True).values()
    assert 0.24 < float((dropped == 0).float().mean()) < 0.26


def test_what_cannot_be_fused_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unfit_for_fusing(backbone("bert")) is None
    assert unfit_for_fusing(backbone("mpnet")) == "attention with relative positions"
    assert unfit_for_fusing(backbone("bert", hidden_size=144, num_attention_heads=2)) == (
        "heads of 72 dimensions, more than 64"
    )
    monkeypatch.setitem(sys.modules, "opencse.kernels.triton_rows", None)
    why = unfit_for_triton.__wrapped__(DEVICE)
    assert why is not None
    assert why.startswith("Triton does not run: import of opencse.kernels.triton_rows halted")
