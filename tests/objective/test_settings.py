"""The [objective] table of a recipe and an objective's arguments: a mistake is one line that says what is expected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.dense import Dense
from opencse.objective.columns import AnyColumns, LogitColumns, Scoring
from opencse.objective.context import Context
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.registry import find
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.similarity import pairwise_similarity, rowwise_similarity
from opencse.objective.terms.base import Term
from opencse.objective.terms.dimensions import DCL
from opencse.objective.vectors.step import Representations
from opencse.objective.views.plain import Dropout
from opencse.settings import PartSettings, validate


def build(**data: Any) -> Objective:
    return Objective.from_settings(validate(ObjectiveSettings, data, "test.toml"))


TERM_ALONE = {"negatives": [], "terms": [{"kind": "cosent"}]}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"negatives": [{"kind": "in_bach"}]}, ["in_bach", "in_batch", "hard"]),
        ({"negatives": [{"kind": "in_batch", "wieght": 1.0}]}, ["wieght", "did you mean 'weight'"]),
        ({"temperature": float("nan")}, ["temperature"]),
        ({"similarity": "euclid"}, ["similarity", "cosine", "dot", "euclid"]),
        (TERM_ALONE | {"positive": {"copies": 2}}, ["positive.copies is read by a contrast alone"]),
        (
            TERM_ALONE | {"mask_duplicates": False},
            ["mask_duplicates is read", "keep the default: mask_duplicates = True"],
        ),
        ({"partition": "joint"}, ["partition = joint is of two directions", "directions = both"]),
    ],
    ids=str,
)
def test_wrong_settings_are_reported_in_one_line(data: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        build(**data)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("test.toml: ")
    for word in words:
        assert word in message


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
        ({"similarity": "euclidean"}, "similarity: input should be 'cosine' or 'dot'"),
        (
            {"negatives": [InBatch]},
            r"negatives: a NegativeSource is expected, not InBatch itself; make one: InBatch\(\)",
        ),
        ({"negatives": [InBatch.Settings()]}, "not a InBatch.Settings; make the part of these settings"),
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


def test_layers_and_the_size_of_tokens_are_required_of_a_known_encoder(encoder: SentenceEncoder) -> None:
    objective = Objective(Dropout(), negatives=[InBatch()])
    for context in (Context(objective), Context(objective, encoder, "folder")):
        context.require_layers("the x term needs some")
        context.require_token_size("the x term compares them")
    narrow = encoder.twin()
    narrow.dense.append(Dense(32, 8))
    with pytest.raises(UserError, match="the x term compares them: 8 dimensions, where tokens have 32; leave"):
        Context(objective, narrow).require_token_size("the x term compares them")
    flat = SentenceEncoder.load("opencse-mini", device="cpu")
    with pytest.raises(UserError, match="opencse-mini: has no layers, and the x term needs some; choose another"):
        Context(objective, flat, "opencse-mini").require_layers("the x term needs some")
