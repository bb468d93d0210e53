"""Terms: what the objective multiplies, adds up and lets them compare."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from torch import Tensor

from opencse.objective.objective import Objective
from opencse.objective.terms.base import Term
from opencse.objective.terms.dcl import DCL
from opencse.objective.vectors.requests import Sentences
from opencse.objective.vectors.step import Representations
from opencse.objective.views.dropout import Dropout
from opencse.settings import PartSettings


class Length(Term):
    """The mean squared length of the anchors."""

    class Settings(PartSettings):
        kind: Literal["length"] = "length"
        weight: float = 0.25

    settings: Settings
    compares_examples = False

    def loss(self, reps: Representations) -> Tensor:
        return reps.anchor.square().sum(dim=1).mean()


def test_the_loss_is_weighted_and_named_by_its_kind() -> None:
    reps = Representations.of(2 * torch.eye(3), torch.eye(3))
    losses = Objective(Dropout(), terms=[Length()])(reps).losses
    assert {name: loss.item() for name, loss in losses.items()} == {"length": 0.25 * 4}


@pytest.mark.parametrize(("term", "compares"), [(Length(), False), (DCL(), True)])
def test_only_terms_that_say_so_compare_examples(term: Term, compares: bool) -> None:
    assert Objective(Dropout(), terms=[term]).compares_examples is compares
    assert term.reads == {Sentences()}
