"""Which pairs are positives, and how often a positive counts, against loops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from opencse.errors import UserError
from opencse.objective.columns import Scoring
from opencse.objective.objective import Objective
from opencse.objective.positive import Positive
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.requests import Sentences
from opencse.objective.vectors.row_labels import Scores
from opencse.objective.vectors.step import Representations
from opencse.recipes.recipe import load_recipe
from opencse.settings import validate

N, D = 6, 4
LABELS = torch.tensor([1.0, 0.0, 1.0, 0.0, 0.0, 1.0])


def objective(**settings: Any) -> Objective:
    return Objective.from_settings(validate(ObjectiveSettings, settings, "test"))


def leaves() -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(5)
    anchor, positive = torch.randn(2, N, D, generator=random, dtype=torch.float64)
    return anchor.requires_grad_(), positive.requires_grad_()


def step(anchor: Tensor, positive: Tensor, labels: Tensor = LABELS) -> Representations:
    return replace(Representations.of(anchor, positive), answers={Scores(): labels})


def cosine(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum() / (a.square().sum() * b.square().sum()).sqrt()


def in_batch_loss_of_angle(first: Tensor, second: Tensor) -> Tensor:
    """Each text of a pair of label 1 against all others of the batch; texts of label 0 count as 0 in the mean."""
    texts = [text for pair in zip(first, second, strict=True) for text in pair]
    total = torch.zeros((), dtype=torch.float64)
    for i in range(2 * N):
        if LABELS[i // 2] == 1:
            partner = i + 1 if i % 2 == 0 else i - 1
            others = torch.stack([20 * cosine(texts[i], texts[j]) for j in range(2 * N) if j != i])
            total = total - (20 * cosine(texts[i], texts[partner]) - others.exp().sum().log())
    return total / (2 * N)


@pytest.mark.parametrize("tile_bytes", [2**24, 100], ids=["at once", "in tiles"])
def test_the_in_batch_loss_of_angle_by_loops(tile_bytes: int) -> None:
    settings = load_recipe("angle:in-batch").objective
    made = Objective.from_settings(settings.model_copy(update={"tile_bytes": tile_bytes}))
    first, second = leaves()
    ours, theirs = made(step(first, second)).losses["contrast"], in_batch_loss_of_angle(first, second)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)
    wanted = torch.autograd.grad(theirs, (first, second))
    assert min(gradient.abs().max() for gradient in wanted) > 1e-3
    torch.testing.assert_close(torch.autograd.grad(ours, (first, second)), wanted, rtol=1e-10, atol=1e-10)


def test_pairs_of_a_low_score_have_no_loss_but_their_texts_are_negatives() -> None:
    first, second = leaves()
    some, every = objective(positive={"least_score": 0.5}), objective()
    assert (some.label, every.label) == ("score", None)
    assert some(step(first, second, torch.ones(N))).total == every(step(first, second)).total
    assert some(step(first, second, torch.zeros(N))).total == 0
    anchors, positives = torch.autograd.grad(some(step(first, second)).total, (first, second))
    assert anchors[LABELS == 0].abs().max() == 0
    assert positives[LABELS == 0].abs().max() > 1e-4, "pushed away from the anchors of the others"


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("tile_bytes", [2**24, 100], ids=["at once", "in tiles"])
def test_copies_of_the_positive_by_loops(tile_bytes: int, smoothing: float) -> None:
    first, second = leaves()
    total = torch.zeros((), dtype=torch.float64)
    for i in range(N):
        logits = [cosine(first[i], second[j]) / 0.3 for j in (i, i, i, *(j for j in range(N) if j != i))]
        normaliser = torch.stack(logits).exp().sum().log()
        uniform = torch.stack([normaliser - logit for logit in logits]).mean()
        total = total + ((1 - smoothing) * (normaliser - logits[0]) + smoothing * uniform) / N
    made = objective(positive={"copies": 3}, temperature=0.3, label_smoothing=smoothing, tile_bytes=tile_bytes)
    ours = made(step(first, second)).total
    torch.testing.assert_close(ours, total, rtol=1e-10, atol=1e-10)
    gradients = [torch.autograd.grad(loss, (first, second)) for loss in (ours, total)]
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-10, atol=1e-10)


def test_what_it_reads_and_gives() -> None:
    assert Positive().reads == {Sentences()}
    assert Positive(least_score=0.5).reads == {Sentences(), Scores()}
    pairs = Positive(scale=2.0, copies=2, least_score=0.5).pairs(step(*leaves()), Scoring())
    assert (pairs.scale, pairs.copies) == (2.0, 2)
    assert pairs.counted is not None
    assert pairs.counted.tolist() == LABELS.bool().tolist()


def test_what_cannot_be_combined() -> None:
    with pytest.raises(UserError, match=r"objective\.loss = binary is of single probabilities"):
        objective(loss="binary", positive={"copies": 2})
    with pytest.raises(UserError, match=r"positive\.least_score is read by a contrast alone"):
        objective(negatives=[], terms=[{"kind": "cosent"}], positive={"least_score": 0.5})


@pytest.mark.parametrize("kind", ["anchors", "positives", "clean"])
@pytest.mark.parametrize("view", ["pair", "next_sentence", "spans"])
def test_a_text_compared_with_itself_is_refused_where_the_positive_is_another_text(view: str, kind: str) -> None:
    with pytest.raises(UserError, match=rf"positive\.of = {kind} compares a text with itself.*view {view}"):
        objective(view={"kind": view}, positive={"of": {"kind": kind}})
    objective(view={"kind": "repeat_subwords"}, positive={"of": {"kind": kind}})  # as SSCL-BERT of single sentences
    objective(view={"kind": view}, negatives=[], terms=[{"kind": "dcl"}])
