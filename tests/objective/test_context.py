"""What a part sees of an objective when it checks whether it can be used."""

from __future__ import annotations

import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.dense import Dense
from opencse.objective.context import Composition, Context
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.terms.dcl import DCL
from opencse.objective.vectors.requests import Sentences
from opencse.objective.views.dropout import Dropout


def test_an_objective_is_a_composition() -> None:
    composition: Composition = Objective(Dropout(), negatives=[InBatch()], terms=[DCL()])
    assert composition.view.kind == "dropout"
    assert not composition.view.two_passes
    assert composition.positive.of.of_positives
    assert [source.kind for source in composition.negatives] == ["in_batch"]
    assert not composition.negatives[0].averaged_with_plain
    assert [term.kind for term in composition.terms] == ["dcl"]
    assert not composition.dual_encoder
    assert composition.reads == {Sentences()}


def test_what_is_not_known_yet_is_none() -> None:
    context = Context(Objective(Dropout(), negatives=[InBatch()]))
    assert context.encoder is None
    assert context.hard is None
    assert context.own_dropout


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
