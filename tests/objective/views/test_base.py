"""Which texts make an example, and how two views of one sentence differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.context import Context
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.registry import build as build_part
from opencse.objective.terms.mlm import MaskedLM
from opencse.objective.vectors.represent import represent
from opencse.objective.vectors.requests import Sentences
from opencse.objective.vectors.step import Representations, StepInputs
from opencse.objective.views.base import ChangesTokens
from opencse.objective.views.dropout import Dropout
from opencse.objective.views.next_sentence import NextSentence
from opencse.objective.views.pair import Pair
from toy_documents import DOCUMENTS, corpus_of, pairs_of


def test_every_settings_class_has_its_view() -> None:
    for part in (Dropout, NextSentence, Pair):
        assert type(build_part(part.Settings())) is part


def test_dropout_alone_needs_a_backbone_with_dropout(tiny_folder: Path) -> None:
    """The other views differ by their texts; a user who set the rate to 0 gets equal views."""
    still, lively = (SentenceEncoder.load(tiny_folder, dropout=rate, device="cpu") for rate in (0.0, 0.1))
    for view in (NextSentence(), Pair()):
        objective = Objective(view, negatives=[InBatch()])
        objective.check(Context(objective, encoder=still, model="tiny"))
    objective = Objective(Dropout(), negatives=[InBatch()])
    objective.check(Context(objective, encoder=lively, model="tiny"))
    objective.check(Context(objective, encoder=still, model="tiny", own_dropout=False))
    with pytest.raises(UserError, match=r"^tiny: this backbone has no dropout, so both views .*encoder\.dropout=0\.1"):
        objective.check(Context(objective, encoder=still, model="tiny"))
    alone = Objective(Dropout(), terms=[MaskedLM()])
    alone.check(Context(alone, encoder=still, model="tiny"))


def test_dropout_takes_every_sentence_twice() -> None:
    view = build_part(Dropout.Settings())
    assert pairs_of(view, DOCUMENTS) == [(row, row) for row in range(11)]
    assert not isinstance(view, ChangesTokens), "the positive's tokens are the anchor's"


@pytest.mark.parametrize("width", [2, 3])
@pytest.mark.parametrize("view", [Dropout.Settings(), NextSentence.Settings()], ids=["dropout", "next_sentence"])
def test_views_of_sentences_refuse_pairs(view: Dropout.Settings | NextSentence.Settings, width: int) -> None:
    with pytest.raises(UserError) as caught:
        build_part(view).examples(corpus_of(DOCUMENTS, width), np.random.default_rng(0))
    message = str(caught.value)
    assert message.startswith(f"toy.txt: the {view.kind} view reads one text per row, not {width}; ")
    assert "\n" not in message


def two_views(folder: Path, texts: list[str], dropout: float) -> Representations:
    encoder = SentenceEncoder.load(folder, pooling="cls", dropout=dropout, device="cpu").train()
    tokens = encoder.tokenizer.pad(encoder.tokenize(texts + texts))
    keys = torch.arange(len(texts)).unsqueeze(1).expand(-1, 2)
    torch.manual_seed(0)
    with torch.no_grad():
        return represent(encoder, StepInputs(tokens, len(texts), keys), {Sentences()})


def test_dropout_masks_are_independent_between_views_and_rows(tiny_folder: Path) -> None:
    reps = two_views(tiny_folder, ["a man is playing a guitar"] * 8, 0.1)
    every = torch.cat([reps.anchor, reps.positive])
    distances = torch.pdist(every)  # one sentence sixteen times: all that differs is the mask
    assert distances.min() > 1e-2
    # No pair shares its mask with another: were a mask shared by a row's views or by rows, distances would repeat.
    assert len(set(distances.tolist())) == 16 * 15 // 2
    assert not torch.isclose(reps.anchor, reps.positive, atol=1e-6).all(dim=1).any()


def test_without_dropout_the_views_are_equal(tiny_folder: Path, sentences: list[str]) -> None:
    reps = two_views(tiny_folder, sentences[:8], 0.0)
    torch.testing.assert_close(reps.anchor, reps.positive, rtol=0, atol=1e-6)  # other rows of one product
    assert torch.pdist(reps.anchor).min() > 1e-3  # the sentences are not
    assert not torch.equal(*(two_views(tiny_folder, sentences[:8], 0.1).__dict__[k] for k in ("anchor", "positive")))


def test_a_view_that_only_has_the_method_of_another_base_is_refused() -> None:
    with pytest.raises(TypeError, match="Halved has a method derive; derive it from DerivesPositives too"):

        class Halved(Dropout):
            def derive(self, anchors: torch.Tensor, noise: torch.Generator) -> torch.Tensor:
                return anchors / 2
