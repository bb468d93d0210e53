"""The views and the anchors as the sides of a similarity."""

from __future__ import annotations

import torch

from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.positive import Positive
from opencse.objective.sides.views import Anchors, Views
from opencse.objective.vectors.requests import Sentences
from opencse.objective.vectors.step import Representations
from opencse.objective.views.dropout import Dropout

REPS = Representations.of(torch.eye(3), -torch.eye(3))


def test_each_gives_its_vectors_and_draws_nothing() -> None:
    def no_draw() -> torch.Generator:
        raise AssertionError("nothing is drawn")

    anchors, positives = Views().of(REPS, no_draw)
    assert anchors is REPS.anchor
    assert positives is REPS.positive
    assert all(side is REPS.anchor for side in Anchors().of(REPS, no_draw))
    assert Views().reads == Anchors().reads == {Sentences()}


def test_anchors_compared_with_themselves_are_most_similar() -> None:
    views, anchors = (Objective(Dropout(), positive=Positive(of), negatives=[InBatch()]) for of in (Views(), Anchors()))
    assert views(REPS).report["positive_similarity"] == -1
    assert anchors(REPS).report["positive_similarity"] == 1
