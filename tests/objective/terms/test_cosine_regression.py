"""The regression term: the squared error of cosines and scores; texts of one length may come together."""

from __future__ import annotations

from dataclasses import replace

import torch

from opencse.objective.losses.graded import cosine_regression
from opencse.objective.objective import Objective
from opencse.objective.terms.cosine_regression import CosineRegression
from opencse.objective.vectors.row_labels import Scores
from opencse.objective.vectors.step import Representations
from opencse.objective.views.pair import Pair


def test_it_is_the_loss_of_the_pairs_and_their_scores() -> None:
    random = torch.Generator().manual_seed(1)
    first, second = torch.randn(2, 6, 4, generator=random)
    scores = torch.rand(6, generator=random)
    reps = replace(Representations.of(first, second), answers={Scores(): scores})
    term = CosineRegression(CosineRegression.Settings(weight=3.0))
    torch.testing.assert_close(term.loss(reps), cosine_regression(first, second, scores))
    objective = Objective(Pair(), terms=[term])
    assert not objective.compares_examples
    torch.testing.assert_close(objective(reps).total, 3 * cosine_regression(first, second, scores))
