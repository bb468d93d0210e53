"""Texts in another template or negated, as rows of a step: what is encoded, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.context import Context
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.negatives.rewritten import RewrittenTexts
from opencse.objective.objective import Objective
from opencse.objective.terms.bidirectional_margin import BidirectionalMargin
from opencse.objective.vectors.step import Request, StepInputs
from opencse.objective.views.dropout import Dropout
from opencse.objective.views.templates import Templates
from opencse.text.template import Frame, Template
from opencse.text.tokenizer import Tokens

TEXT, OTHER = 'a text of "{text}" is {mask}.', "the text : {text} is not {mask} here"
TEXTS = ["a dog is here .", "she likes dogs ."]


@pytest.fixture(scope="module")
def encoder(tiny_folder: Path) -> SentenceEncoder:
    return SentenceEncoder(tiny_folder, pooling="mask", template=TEXT, device="cpu")


def vectors_in(encoder: SentenceEncoder, folder: Path, template: str, texts: list[str]) -> torch.Tensor:
    return torch.from_numpy(SentenceEncoder(folder, pooling="mask", template=template, device="cpu").encode(texts))


@pytest.mark.parametrize(
    ("change", "template", "texts"),
    [
        ("none", OTHER, TEXTS),
        ("negated", None, ["a dog is not here .", "she does not like dogs ."]),
        ("negated", OTHER, ["a dog is not here .", "she does not like dogs ."]),
    ],
)
def test_answer_is_the_vectors_of_the_changed_texts(
    encoder: SentenceEncoder, tiny_folder: Path, change: str, template: str | None, texts: list[str]
) -> None:
    rows = encoder.tokenize(TEXTS)
    tokens = encoder.tokenizer.pad([*rows, *rows])
    random = np.random.default_rng(0)
    source = RewrittenTexts(RewrittenTexts.Settings(template=template, change=change))
    objective = Objective(Dropout(), negatives=[InBatch(), source])
    request_of_source = source.request
    prepared: dict[Request[Any], Tokens] = {
        request_of_source: request_of_source.prepare(tokens.rows(0, 2), encoder.tokenizer, random)
    }
    inputs = StepInputs(tokens, 2, torch.arange(4).reshape(2, 2), prepared)
    with encoder.without_dropout(), torch.no_grad():
        reps = objective.represent(encoder, inputs)
        answer = reps[request_of_source]
    longest = int(tokens.attention_mask.sum(dim=1).max())
    ids = [encoder.tokenizer.encode([text], longest)[0] for text in texts] if change == "negated" else None
    if ids is None:
        torch.testing.assert_close(answer, vectors_in(encoder, tiny_folder, OTHER, texts), atol=1e-5, rtol=0)
    elif template is None:
        with encoder.without_dropout(), torch.no_grad():
            torch.testing.assert_close(answer, encoder(encoder.tokenizer.pad(ids)).vectors, atol=1e-5, rtol=0)
    assert not torch.allclose(answer, reps.anchor, atol=1e-3)


def test_positives_are_in_the_other_template(encoder: SentenceEncoder) -> None:
    view = Templates(Templates.Settings(positive=OTHER))
    view.begin(encoder, batch_size=2, seed=0)
    own, other = encoder.tokenizer.frame, Frame.of(Template(OTHER), encoder.tokenizer.hf)
    assert own is not None
    texts = encoder.tokenizer.encode_words([*TEXTS, "a dog " * 300], encoder.max_length)
    for text, positive in zip(texts, view.positives(texts, np.random.default_rng(0)), strict=True):
        assert len(positive) <= encoder.max_length
        inside = other.inside(positive)
        assert inside.tolist() == own.inside(text.ids)[: len(inside)].tolist()
        assert len(inside) == len(own.inside(text.ids)) or len(positive) == encoder.max_length


LONGER = OTHER + " and it is not so in the long run"


@pytest.mark.parametrize(
    "source",
    [
        RewrittenTexts(RewrittenTexts.Settings(template=LONGER)),
        BidirectionalMargin(BidirectionalMargin.Settings(template=LONGER)),
    ],
)
def test_a_longer_template_truncates_the_text_at_the_encoders_limit(
    encoder: SentenceEncoder, source: RewrittenTexts | BidirectionalMargin
) -> None:
    source.begin(encoder, batch_size=2, seed=0)
    tokens = encoder.tokenizer.pad(encoder.tokenize(["a dog " * 300, "a dog ."]))
    assert tokens.input_ids.shape[1] == encoder.max_length
    prepared = source.request.prepare(tokens, encoder.tokenizer, np.random.default_rng(0))
    frame = Frame.of(Template(LONGER), encoder.tokenizer.hf)
    assert prepared.input_ids.shape[1] == encoder.max_length
    assert prepared.input_ids[0, -len(frame.after) :].tolist() == list(frame.after)
    assert encoder(prepared).vectors.isfinite().all()


def test_parts_with_a_template_need_one_to_replace(tiny_folder: Path) -> None:
    plain = SentenceEncoder(tiny_folder, pooling="cls", device="cpu")
    for objective in (
        Objective(Templates(), negatives=[InBatch()]),
        Objective(Dropout(), negatives=[RewrittenTexts(RewrittenTexts.Settings(template=OTHER))]),
    ):
        with pytest.raises(UserError, match="the encoder has none"):
            objective.check(Context(objective, encoder=plain))


def test_a_template_without_the_mask_that_is_pooled_is_refused(encoder: SentenceEncoder) -> None:
    objective = Objective(Templates(Templates.Settings(positive="{text} is here")), negatives=[InBatch()])
    with pytest.raises(UserError, match="has no mask after the slot"):
        objective.check(Context(objective, encoder=encoder))


def test_a_second_encoder_is_refused() -> None:
    with pytest.raises(UserError, match="dual_encoder"):
        Objective(Dropout(), negatives=[InBatch()], terms=[BidirectionalMargin()], dual_encoder=True)
