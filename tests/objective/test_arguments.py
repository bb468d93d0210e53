"""What an objective is made of, and what its parts give in a step: a mistake is one line that says what is expected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
import torch

from opencse.errors import UserError
from opencse.objective.columns import AnyColumns, LogitColumns, Scoring
from opencse.objective.losses.similarity import pairwise_similarity, rowwise_similarity
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.registry import find
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.terms.base import Term
from opencse.objective.terms.dcl import DCL
from opencse.objective.vectors.step import Representations
from opencse.objective.views.dropout import Dropout
from opencse.settings import PartSettings


class Constant(Term):
    """A term that gives what it is told."""

    class Settings(PartSettings):
        kind: Literal["constant"] = "constant"
        weight: float = 1.0

    value: Any = 0.0

    def loss(self, reps: Representations) -> Any:
        return self.value


class Named(Constant):
    class Settings(PartSettings):
        kind: Literal["contrast"] = "contrast"
        weight: float = 1.0


class Weightless(Constant):
    class Settings(PartSettings):
        kind: Literal["weightless"] = "weightless"


class Half(Weightless):
    class Settings(PartSettings):
        kind: Literal["half"] = "half"

    @property
    def weight(self) -> float:
        return 0.5


class Flat(InBatch):
    class Settings(InBatch.Settings):
        kind: Literal["flat"] = "flat"  # type: ignore[assignment]

    def columns(self, reps: Representations, scoring: Scoring) -> AnyColumns:
        return LogitColumns(scoring.own_logits(reps.anchor, reps.positive))


def objective(**arguments: Any) -> Objective:
    return Objective(Dropout(), **{"negatives": [InBatch()], **arguments})


def reps() -> Representations:
    torch.manual_seed(0)
    return Representations.of(torch.randn(4, 8), torch.randn(4, 8))


def constant(value: Any) -> Constant:
    part = Constant()
    part.value = value
    return part


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"temperature": 0.0}, "temperature: input should be greater than 0"),
        ({"temperature": float("nan")}, "temperature: input should be a finite number"),
        ({"similarity": "euclidean"}, "similarity: input should be 'cosine' or 'dot'"),
        ({"directions": "up"}, "directions: input should be 'rows', 'columns' or 'both'"),
        ({"partition": "joint", "directions": "none"}, "directions: input should be"),
        ({"partition": "joint"}, "partition = joint is of two directions"),
        ({"loss": "hinge"}, "loss: input should be 'softmax' or 'binary'"),
        ({"label_smoothing": 1.5}, "label_smoothing: input should be less than 1"),
        ({"tile_bytes": 0}, "tile_bytes: input should be greater than 0"),
        (
            {"negatives": [InBatch]},
            r"negatives: a NegativeSource is expected, not InBatch itself; make one: InBatch\(\)",
        ),
        ({"negatives": [InBatch.Settings()]}, "not a InBatch.Settings; make the part of these settings"),
        ({"negatives": [DCL()]}, "negatives: a NegativeSource is expected, not a DCL"),
        ({"terms": [InBatch()]}, "terms: a Term is expected, not a InBatch"),
        ({"terms": [Weightless()]}, "the term weightless has no weight in its Settings"),
        (
            {"negatives": [], "terms": [DCL()], "temperature": 0.1, "loss": "binary"},
            "objective: temperature and loss are read by a contrast alone, and there are no negatives",
        ),
        ({"terms": [Named()]}, "a term of the kind 'contrast' would take the place of the contrastive loss"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        objective(**arguments)


def test_both_directions_may_be_one_softmax_and_a_term_may_compute_its_weight() -> None:
    made = objective(directions="both", partition="joint", terms=[Half()])
    made.terms[0].value = torch.tensor(4.0)
    assert float(made(reps()).losses["half"]) == 2.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda: {"terms": [constant(torch.ones(4))]}, r"the term constant: its loss is a tensor of the shape \(4,\)"),
        (lambda: {"terms": [constant(3.0)]}, "the term constant: its loss is a float; a scalar tensor is expected"),
        (lambda: {"negatives": [Flat()]}, r"negatives.flat: gives logits of the shape \(4,\); \(4, K\) is expected"),
        (
            lambda: {"negatives": [Flat()], "directions": "columns"},
            r"negatives.flat: gives logits of the shape \(4,\)",
        ),
    ],
)
def test_a_part_that_gives_another_shape_is_named(arguments: Callable[[], dict[str, Any]], message: str) -> None:
    with pytest.raises(UserError, match=message):
        objective(**arguments())(reps())


def test_a_recipe_refuses_a_term_without_weight_or_with_the_name_of_the_contrast() -> None:
    with pytest.raises(
        UserError, match="has no weight in its Settings, which multiplies its loss; add one: weight: float"
    ):
        find("term", f"{__name__}:Weightless")
    assert find("term", f"{__name__}:Half") is Half
    with pytest.raises(UserError, match="give its Settings another kind"):
        Objective.from_settings(ObjectiveSettings(terms=(Named.Settings(),)))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((4, 8), (5, 8)), r"anchor \(4, 8\), positive \(5, 8\): both are expected as \(N, d\)"),
        (((8,), (8,)), "both are expected as"),
        (((4, 8), (4, 8), (4, 8)), r"hard \(4, 8\): \(4, H, 8\) is expected"),
        (((4, 8), (4, 8), (3, 1, 8)), r"hard \(3, 1, 8\): \(4, H, 8\) is expected"),
    ],
)
def test_vectors_that_do_not_belong_together_are_refused(shapes: tuple[tuple[int, ...], ...], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Representations.of(*(torch.ones(shape) for shape in shapes))


@pytest.mark.parametrize("function", [pairwise_similarity, rowwise_similarity])
def test_an_unknown_similarity_is_not_taken_for_the_dot_product(function: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="unknown similarity 'euclidean'; known: cosine, dot"):
        function(torch.eye(2), torch.eye(2), "euclidean")
