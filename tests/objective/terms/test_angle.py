"""The AnglE term: the loss of its pairs, and its settings."""

from __future__ import annotations

from dataclasses import replace

import torch

from opencse.objective.losses.graded import angle
from opencse.objective.terms.angle import Angle
from opencse.objective.vectors.requests import Sentences
from opencse.objective.vectors.row_labels import Scores
from opencse.objective.vectors.step import Representations


def test_it_is_the_loss_of_the_pairs_and_their_scores() -> None:
    random = torch.Generator().manual_seed(1)
    first, second = torch.randn(2, 6, 4, generator=random)
    scores = torch.rand(6, generator=random)
    reps = replace(Representations.of(first, second), answers={Scores(): scores})
    term = Angle(Angle.Settings(scale=3.0))
    torch.testing.assert_close(term.loss(reps), angle(first, second, scores, scale=3.0))
    assert not torch.equal(term.loss(reps), Angle().loss(reps))
    assert term.reads == {Sentences(), Scores()}
    assert term.compares_examples
