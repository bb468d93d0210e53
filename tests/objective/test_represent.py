"""One forward over a step's rows: their order, what parts read, and nothing that nobody reads."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.dense import Dense
from opencse.objective.negatives.derived import RewrittenTexts
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.terms.pairs import BidirectionalMargin
from opencse.objective.terms.tokens import MaskedLM
from opencse.objective.vectors.represent import represent
from opencse.objective.vectors.requests import HardNegatives, Layer, LmHead, Sentences
from opencse.objective.vectors.step import Request, StepInputs
from opencse.objective.views.plain import Dropout
from opencse.objective.views.templates import Templates
from opencse.text.template import Frame, Template
from opencse.text.tokenizer import Tokens

N = 4


@pytest.fixture
def encoder(tiny_encoder: SentenceEncoder) -> SentenceEncoder:
    """The tiny model in evaluation mode."""
    return tiny_encoder.twin()


def step(encoder: SentenceEncoder, texts: list[str], n: int = N) -> StepInputs:
    keys = torch.arange(len(texts)).reshape(-1, n).T.contiguous()
    return StepInputs(encoder.tokenizer.pad(encoder.tokenize(texts)), n, keys)


@pytest.mark.parametrize("hard", [0, 1, 2])
def test_rows_are_anchors_positives_then_each_hard_negative(
    encoder: SentenceEncoder, sentences: list[str], hard: int
) -> None:
    texts = sentences[: (2 + hard) * N]
    assert len(set(texts)) == len(texts)
    inputs = step(encoder, texts)
    with torch.no_grad():
        reps = represent(encoder, inputs, {Sentences(), *([HardNegatives()] if hard > 0 else [])})
    own = torch.from_numpy(encoder.encode(texts))
    assert torch.pdist(own).min() > 1e-2  # a wrong row would be seen
    assert reps.anchor.shape == reps.positive.shape == (N, 32)
    assert reps.hard.shape == (N, hard, 32)
    assert torch.allclose(reps.anchor, own[:N], atol=1e-5)
    assert torch.allclose(reps.positive, own[N : 2 * N], atol=1e-5)
    for h in range(hard):
        assert torch.allclose(reps.hard[:, h], own[(2 + h) * N : (3 + h) * N], atol=1e-5)
    assert torch.equal(reps.keys, inputs.keys)
    assert {request for request, answer in reps.answers.items() if answer is not None} == set()


@pytest.mark.parametrize(
    ("reads", "forwards"),
    [
        ({Sentences()}, 1),
        ({HardNegatives()}, 1),
        ({Layer(1)}, 1),
        ({Sentences(), HardNegatives(), Layer(1), Layer(2)}, 1),
        (set(), 0),
        ({LmHead()}, 0),
    ],
    ids=str,
)
def test_one_forward_if_any_part_reads_it(
    encoder: SentenceEncoder, sentences: list[str], reads: set[Request[Any]], forwards: int
) -> None:
    rows: list[int] = []
    encoder.backbone.register_forward_pre_hook(
        lambda module, args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    reps = represent(encoder, step(encoder, sentences[: 3 * N]), reads)
    assert rows == [3 * N] * forwards
    assert reps.anchor.shape == (N, 32 if forwards else 0)
    assert reps.answers.keys() == reads


def test_layers_are_pooled_and_projected_like_the_last_one(encoder: SentenceEncoder, sentences: list[str]) -> None:
    encoder.projection = Dense.mlp_head(32, torch.Generator().manual_seed(1))
    encoder.projection.linear.weight.data *= 20
    inputs = step(encoder, sentences[: 3 * N])
    with torch.no_grad():
        reps = represent(encoder, inputs, {Sentences(), HardNegatives(), Layer(0), Layer(2), Layer(3)})
        states = encoder.backbone(
            input_ids=inputs.tokens.input_ids,
            attention_mask=inputs.tokens.attention_mask,
            output_hidden_states=True,
        ).hidden_states
    linear = encoder.projection.linear
    for layer in (0, 2, 3):
        vectors = reps[Layer(layer)]
        assert vectors.shape == (2 * N, 32)
        for row in range(2 * N):
            real = states[layer][row][inputs.tokens.attention_mask[row].bool()]
            expected = torch.tanh(linear.weight @ real.mean(dim=0) + linear.bias)
            assert torch.allclose(vectors[row], expected, atol=1e-6)
    assert torch.allclose(reps[Layer(3)], torch.cat([reps.anchor, reps.positive]), atol=1e-6)
    assert not torch.allclose(reps[Layer(2)], reps[Layer(3)], atol=1e-2)


def test_vectors_of_a_masked_copy_are_refused_in_a_template(encoder: SentenceEncoder, tiny_folder: Path) -> None:
    """The last mask token, which is pooled, could be a masked word of the template."""
    templated = SentenceEncoder.load(tiny_folder, template='"{text}" is {mask} here', pooling="mask", device="cpu")
    for masked_contrast in (False, True):
        term = MaskedLM(MaskedLM.Settings(masked_contrast=masked_contrast))
        objective = Objective(Dropout(), negatives=[InBatch()], terms=[term])
        objective.check_encoder(encoder)
        with pytest.raises(UserError, match="masked_contrast would mask words") if masked_contrast else nullcontext():
            objective.check_encoder(templated)


TEXT, OTHER = 'a text of "{text}" is {mask}.', "the text : {text} is not {mask} here"
TEXTS = ["a dog is here .", "she likes dogs ."]


@pytest.fixture(scope="module")
def templated(tiny_folder: Path) -> SentenceEncoder:
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
    templated: SentenceEncoder, tiny_folder: Path, change: str, template: str | None, texts: list[str]
) -> None:
    rows = templated.tokenize(TEXTS)
    tokens = templated.tokenizer.pad([*rows, *rows])
    random = np.random.default_rng(0)
    source = RewrittenTexts(RewrittenTexts.Settings(template=template, change=change))
    objective = Objective(Dropout(), negatives=[InBatch(), source])
    request_of_source = source.request
    prepared: dict[Request[Any], Tokens] = {
        request_of_source: request_of_source.prepare(tokens.rows(0, 2), templated.tokenizer, random)
    }
    inputs = StepInputs(tokens, 2, torch.arange(4).reshape(2, 2), prepared)
    with templated.without_dropout(), torch.no_grad():
        reps = objective.represent(templated, inputs)
        answer = reps[request_of_source]
    longest = int(tokens.attention_mask.sum(dim=1).max())
    ids = [templated.tokenizer.encode([text], longest)[0] for text in texts] if change == "negated" else None
    if ids is None:
        torch.testing.assert_close(answer, vectors_in(templated, tiny_folder, OTHER, texts), atol=1e-5, rtol=0)
    elif template is None:
        with templated.without_dropout(), torch.no_grad():
            torch.testing.assert_close(answer, templated(templated.tokenizer.pad(ids)).vectors, atol=1e-5, rtol=0)
    assert not torch.allclose(answer, reps.anchor, atol=1e-3)


def test_positives_are_in_the_other_template(templated: SentenceEncoder) -> None:
    view = Templates(Templates.Settings(positive=OTHER))
    view.begin(templated, batch_size=2, seed=0)
    own, other = templated.tokenizer.frame, Frame.of(Template(OTHER), templated.tokenizer.hf)
    assert own is not None
    texts = templated.tokenizer.encode_words([*TEXTS, "a dog " * 300], templated.max_length)
    for text, positive in zip(texts, view.positives(texts, np.random.default_rng(0)), strict=True):
        assert len(positive) <= templated.max_length
        inside = other.inside(positive)
        assert inside.tolist() == own.inside(text.ids)[: len(inside)].tolist()
        assert len(inside) == len(own.inside(text.ids)) or len(positive) == templated.max_length


LONGER = OTHER + " and it is not so in the long run"


@pytest.mark.parametrize(
    "source",
    [
        RewrittenTexts(RewrittenTexts.Settings(template=LONGER)),
        BidirectionalMargin(BidirectionalMargin.Settings(template=LONGER)),
    ],
)
def test_a_longer_template_truncates_the_text_at_the_encoders_limit(
    templated: SentenceEncoder, source: RewrittenTexts | BidirectionalMargin
) -> None:
    source.begin(templated, batch_size=2, seed=0)
    tokens = templated.tokenizer.pad(templated.tokenize(["a dog " * 300, "a dog ."]))
    assert tokens.input_ids.shape[1] == templated.max_length
    prepared = source.request.prepare(tokens, templated.tokenizer, np.random.default_rng(0))
    frame = Frame.of(Template(LONGER), templated.tokenizer.hf)
    assert prepared.input_ids.shape[1] == templated.max_length
    assert prepared.input_ids[0, -len(frame.after) :].tolist() == list(frame.after)
    assert templated(prepared).vectors.isfinite().all()


def test_parts_with_a_template_need_one_to_replace(tiny_folder: Path) -> None:
    plain = SentenceEncoder(tiny_folder, pooling="cls", device="cpu")
    for objective in (
        Objective(Templates(), negatives=[InBatch()]),
        Objective(Dropout(), negatives=[RewrittenTexts(RewrittenTexts.Settings(template=OTHER))]),
    ):
        with pytest.raises(UserError, match="the encoder has none"):
            objective.check_encoder(plain)


def test_a_template_without_the_mask_that_is_pooled_is_refused(templated: SentenceEncoder) -> None:
    objective = Objective(Templates(Templates.Settings(positive="{text} is here")), negatives=[InBatch()])
    with pytest.raises(UserError, match="has no mask after the slot"):
        objective.check_encoder(templated)
