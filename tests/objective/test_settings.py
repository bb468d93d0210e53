"""The [objective] table of a recipe and an objective's arguments: a mistake is one line that says what is expected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.dense import Dense
from opencse.objective.context import Context
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.similarity import pairwise_similarity, rowwise_similarity
from opencse.objective.views.plain import Dropout
from opencse.settings import validate


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


def objective(**arguments: Any) -> Objective:
    return Objective(Dropout(), **{"negatives": [InBatch()], **arguments})


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
