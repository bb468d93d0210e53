"""Pairs of contrastive tension: one sentence, or two of the batch."""

from __future__ import annotations

import pytest
import torch

from opencse.errors import UserError
from opencse.objective.losses.tension import contrastive_tension
from opencse.objective.terms.contrastive_tension import ContrastiveTension
from opencse.objective.vectors.step import Representations


def vectors(n: int = 5) -> Representations:
    anchor, positive = torch.randn(2, n, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return Representations.of(anchor, positive)


def test_the_first_pairs_are_one_sentence_and_the_others_two() -> None:
    reps, term = vectors(), ContrastiveTension(ContrastiveTension.Settings(negatives=60))
    first, second = term.pairs(reps)
    assert first[:5].tolist() == second[:5].tolist() == [0, 1, 2, 3, 4]
    drawn = set(zip(first[5:].tolist(), second[5:].tolist(), strict=True))
    assert drawn == {(i, j) for i in range(5) for j in range(5) if i != j}, "all pairs of two, no pair of one"
    again = term.pairs(reps)
    assert torch.equal(first, again[0])
    assert torch.equal(second, again[1])


def test_the_loss_is_that_of_its_pairs() -> None:
    reps, term = vectors(), ContrastiveTension()
    first, second = term.pairs(reps)
    assert len(first) == 5 * 8
    labels = torch.tensor([1] * 5 + [0] * 35)
    expected = contrastive_tension(reps.anchor[first], reps.positive[second], labels)
    assert torch.equal(term.loss(reps), expected)
    assert term.loss(reps) != ContrastiveTension(ContrastiveTension.Settings(negatives=1)).loss(reps)


def test_the_loss_is_torchs_mean_over_the_same_pairs() -> None:
    reps, term = vectors(), ContrastiveTension()
    first, second = term.pairs(reps)
    labels = torch.tensor([1.0] * 5 + [0.0] * 35, dtype=torch.float64)
    logits = (reps.anchor[first] * reps.positive[second]).sum(dim=1)
    theirs = torch.nn.BCEWithLogitsLoss(reduction="sum")(logits, labels)
    assert term.loss(reps).item() * 40 == pytest.approx(theirs.item(), rel=1e-12)


def test_one_sentence_has_no_second_one() -> None:
    with pytest.raises(UserError, match=r"needs two sentences in a batch.*training\.batch_size"):
        ContrastiveTension().loss(vectors(1))
