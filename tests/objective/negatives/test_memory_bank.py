"""The memory bank of Park's thesis, section 4.3, against a list."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fuzzing import examples
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.dense import Dense
from opencse.objective.columns import Scoring
from opencse.objective.negatives.memory_bank import MemoryBank
from opencse.objective.vectors.step import Representations, StepInputs
from opencse.settings import validate
from opencse.text.tokenizer import Tokens

D = 3
COSINE = Scoring("cosine", 0.5, True)


def anchors_of(n: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(n, D, generator=torch.Generator().manual_seed(seed)).to(dtype) + 0.5


def reps_of(anchor: Tensor, keys: Sequence[int], positives: Sequence[int] | None = None) -> Representations:
    others = [key + 1000 for key in keys] if positives is None else positives
    both = torch.tensor([list(keys), list(others)]).T
    return Representations(anchor, anchor.detach(), anchor.new_zeros(len(anchor), 0, D), both)


def similarity(a: list[float], b: list[float], scoring: Scoring) -> float:
    norms = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / norms / scoring.temperature


def no_inputs(n: int) -> StepInputs:
    """What the bank does not read."""
    return StepInputs(
        Tokens(torch.zeros(n, 1, dtype=torch.int64), torch.ones(n, 1, dtype=torch.int64)), n, torch.zeros(1)
    )


@pytest.fixture(scope="module")
def encoder(tiny_encoder: SentenceEncoder) -> SentenceEncoder:
    """The tiny model with a training head, whose vectors have another number of dimensions."""
    encoder = tiny_encoder.twin()
    encoder.projection = Dense(32, D)
    return encoder


def begun_bank(encoder: SentenceEncoder, batch_size: int, **data: Any) -> MemoryBank:
    bank = MemoryBank(validate(MemoryBank.Settings, {"kind": "memory_bank", **data}, "test"))
    bank.begin(encoder, batch_size=batch_size, seed=0)
    return bank


@examples(40)
@given(
    steps=st.integers(1, 3),
    batch=st.integers(2, 4),
    sizes=st.lists(st.integers(2, 4), min_size=1, max_size=7),
    mask=st.booleans(),
)
def test_the_bank_against_a_list(
    encoder: SentenceEncoder, steps: int, batch: int, sizes: list[int], mask: bool
) -> None:
    bank = begun_bank(encoder, batch, steps=steps, weight=2.0)
    scoring = Scoring("cosine", 0.5, mask)
    assert bank.count(batch, 0) == steps * batch
    kept: list[tuple[list[float], int]] = []
    for step, size in enumerate(min(size, batch) for size in sizes):
        anchors = anchors_of(size, seed=step)
        keys = [(3 * step + 5 * i) % 7 for i in range(size)]
        positives = [(key + step + 1) % 9 for key in keys]
        reps = reps_of(anchors, keys, positives)
        columns = bank.columns(reps, scoring).dense()
        assert columns.logits.shape == (size, len(kept))
        assert columns.log_weight == pytest.approx(math.log(2.0))
        for i, anchor in enumerate(anchors.tolist()):
            wanted = sorted(
                (similarity(anchor, old, scoring), mask and key in (keys[i], positives[i])) for old, key in kept
            )
            found = sorted(zip(columns.logits[i].tolist(), columns.left_out[i].tolist(), strict=True))
            assert [v for v, _ in found] == pytest.approx([v for v, _ in wanted], rel=1e-4, abs=1e-5)
            assert sum(out for _, out in found) == sum(out for _, out in wanted)
        bank.after_backward(encoder, [no_inputs(size)], [reps.detached()])
        kept = (kept + list(zip(anchors.tolist(), keys, strict=True)))[-steps * batch :]


def test_the_bank_holds_copies_without_gradient(encoder: SentenceEncoder) -> None:
    bank = begun_bank(encoder, 2)
    stored = anchors_of(2).requires_grad_()
    bank.after_backward(encoder, [no_inputs(2)], [reps_of(stored, [0, 1])])
    before = stored.detach().clone()
    stored.data.zero_()
    leaf = anchors_of(2, seed=1).requires_grad_()
    logits = bank.columns(reps_of(leaf, [8, 9]), COSINE).dense().logits
    torch.testing.assert_close(logits, COSINE.logits(leaf, before))
    logits.sum().backward()  # type: ignore[no-untyped-call]
    assert stored.grad is None
    assert leaf.grad is not None
    assert leaf.grad.abs().max() > 0


def test_the_bank_is_state(encoder: SentenceEncoder) -> None:
    bank, other = begun_bank(encoder, 2, steps=2), begun_bank(encoder, 2, steps=2)
    for step in range(3):
        bank.after_backward(encoder, [no_inputs(2)], [reps_of(anchors_of(2, seed=step), [0, 1])])
    reps = reps_of(anchors_of(2, seed=9), [0, 7])
    other.load_state_dict({name: value.clone() for name, value in bank.state_dict().items()})
    found, wanted = other.columns(reps, COSINE).dense(), bank.columns(reps, COSINE).dense()
    assert torch.equal(found.logits, wanted.logits)
    assert torch.equal(found.left_out, wanted.left_out)
    assert found.left_out.any()
    assert not list(bank.parameters())


def test_the_bank_reads_vectors_of_any_precision(encoder: SentenceEncoder) -> None:
    bank = begun_bank(encoder, 2)
    stored = anchors_of(2)
    bank.after_backward(encoder, [no_inputs(2)], [reps_of(stored, [0, 1])])
    for dtype in (torch.bfloat16, torch.float32, torch.float64):
        anchors = anchors_of(2, seed=1, dtype=dtype)
        logits = bank.columns(reps_of(anchors, [5, 6]), COSINE).dense().logits
        assert logits.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        torch.testing.assert_close(
            logits.double(), COSINE.logits(anchors.double(), stored.double()), rtol=1e-5, atol=1e-6
        )


def test_the_bank_has_a_step_at_least() -> None:
    with pytest.raises(UserError, match="steps"):
        validate(MemoryBank.Settings, {"kind": "memory_bank", "steps": 0}, "test")
