"""Which texts make an example, and how two views of one sentence differ."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from helpers import filled
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.kernels.outputs import MaskedTokens
from opencse.model_folder.backbone import dropout_rates
from opencse.model_folder.masked_lm import load_masked_lm_head
from opencse.objective.context import Context
from opencse.objective.losses import masked_lm
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.registry import build as build_part
from opencse.objective.terms.tokens import MaskedLM
from opencse.objective.vectors.masking import MaskedCopy
from opencse.objective.vectors.represent import represent
from opencse.objective.vectors.requests import Masked, Sentences
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.objective.views.plain import Dropout, NextSentence, Pair
from opencse.text import sample
from opencse.text.corpus import tokenise
from opencse.text.readers import Source
from toy_documents import DOCUMENTS, corpus_of, pairs_of


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


N = 6
COPY = Masked(0.15)


@pytest.fixture
def noisy_encoder(tiny_folder: Path) -> SentenceEncoder:
    encoder = SentenceEncoder.load(tiny_folder, pooling="cls", dropout=0.2, device="cpu").train()
    encoder.lm_head = load_masked_lm_head(tiny_folder, encoder.backbone.get_input_embeddings())  # type: ignore[arg-type]
    return encoder.train()


def step(encoder: SentenceEncoder, texts: list[str], *, masked: bool = False) -> StepInputs:
    tokens = encoder.tokenizer.pad(encoder.tokenize(texts + texts))
    keys = torch.arange(len(texts)).unsqueeze(1).expand(-1, 2)
    if not masked:
        return StepInputs(tokens, len(texts), keys)
    places = torch.zeros_like(tokens.input_ids, dtype=torch.bool)
    places[:, 1] = True
    copy = MaskedCopy(MaskedTokens(tokens, places), tokens.input_ids[places])
    return StepInputs(tokens, len(texts), keys, {COPY: copy})


def asked(inputs: StepInputs) -> set[Request[Any]]:
    return {Sentences(), *inputs.prepared}


@pytest.mark.parametrize("masked", [False, True])
def test_views_are_equal_and_rows_and_steps_are_not(noisy_encoder: SentenceEncoder, masked: bool) -> None:
    inputs = step(noisy_encoder, ["a man is playing a guitar"] * N, masked=masked)
    torch.manual_seed(0)
    first, second = (represent(noisy_encoder, inputs, asked(inputs), shared_mask=True) for _ in range(2))
    for reps in (first, second):
        assert torch.equal(reps.anchor, reps.positive)
        assert torch.pdist(reps.anchor).min() > 1e-2  # one text: each row has masks of its own
    assert (first.anchor - second.anchor).abs().amax(dim=1).min() > 1e-2
    torch.manual_seed(0)
    plain = represent(noisy_encoder, inputs, asked(inputs))
    assert not torch.isclose(plain.anchor, plain.positive, atol=1e-3).all(dim=1).any()


@pytest.mark.parametrize("masked", [False, True])
def test_what_follows_is_as_after_one_forward(
    noisy_encoder: SentenceEncoder, sentences: list[str], masked: bool
) -> None:
    inputs = step(noisy_encoder, sentences[:N], masked=masked)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    reps = represent(noisy_encoder, inputs, asked(inputs), shared_mask=True)
    after = torch.get_rng_state()
    torch.manual_seed(3)
    copy = inputs.prepared.get(COPY)
    alone = noisy_encoder(inputs.anchors, masked=None if copy is None else copy.masked)
    assert torch.equal(torch.get_rng_state(), after)
    assert not torch.equal(before, after)
    assert torch.equal(alone.sentence, reps.anchor)
    assert (COPY in reps.answers) == masked
    if masked:
        assert copy is not None
        assert torch.equal(reps[COPY], masked_lm(alone.masked_logits, copy.labels))
        assert len(reps[COPY]) == len(copy.labels) == 2 * N


@pytest.mark.parametrize("packed", [False, True])
def test_each_view_has_its_own_rate(packed: bool, tiny_folder: Path, sentences: list[str]) -> None:
    encoder = SentenceEncoder.load(tiny_folder, dropout=0.1, device="cpu")
    encoder.computation = "packed" if packed else "transformers"
    tokens = encoder.tokenizer.pad(encoder.tokenize(sentences[:6] * 2))
    inputs = StepInputs(tokens, 6, torch.arange(6).unsqueeze(1).repeat(1, 2), noise_seed=0)

    def vectors(*rates: float) -> Representations:
        encoder.train()
        objective = Objective(Dropout(Dropout.Settings(rates=rates)), negatives=[InBatch()])
        torch.manual_seed(0)
        return objective.represent(encoder, inputs)

    with torch.no_grad(), encoder.without_dropout():
        plain = encoder(tokens.rows(0, 6)).vectors
    one, other, high = vectors(0.0, 0.5), vectors(0.5, 0.0), vectors(0.0, 0.05)
    torch.testing.assert_close(one.anchor, plain)
    torch.testing.assert_close(other.positive, plain)
    far, near = ((some.positive - plain).norm(dim=1).mean() for some in (one, high))
    assert far > 2 * near > 0
    assert set(dropout_rates(encoder.backbone.config).values()) == {0.1}, "the encoder's rates are back"
    assert {module.p for module in encoder.backbone.modules() if isinstance(module, torch.nn.Dropout)} == {0.1}


def test_the_next_sentence_exactly() -> None:
    made = pairs_of(build_part(NextSentence.Settings()), DOCUMENTS)
    assert made == [(0, 1), (1, 2), (2, 3), (3, 4), (6, 7), (8, 9), (9, 10)]


def test_one_of_the_next_three_is_drawn_uniformly_from_those_left() -> None:
    view, draws = build_part(NextSentence.Settings(window=3)), 3_000
    counts: dict[int, Counter[int]] = {}
    for seed in range(draws):
        made = pairs_of(view, DOCUMENTS, seed)
        assert [anchor for anchor, _ in made] == [0, 1, 2, 3, 6, 8, 9]
        for anchor, positive in made:
            counts.setdefault(anchor, Counter())[positive] += 1
    left = {0: [1, 2, 3], 1: [2, 3, 4], 2: [3, 4], 3: [4], 6: [7], 8: [9, 10], 9: [10]}
    assert {anchor: sorted(seen) for anchor, seen in counts.items()} == left  # so never across documents
    for anchor, choices in left.items():
        share = 1 / len(choices)
        allowed = 4.5 * (draws * share * (1 - share)) ** 0.5
        for choice in choices:
            assert abs(counts[anchor][choice] - draws * share) <= allowed
    assert sum(counts[anchor][anchor + 1] for anchor in counts) < 0.8 * draws * len(left)  # window 1 would give all


def test_shuffled_lines_are_a_doubt(tmp_path: Path, encoder: SentenceEncoder) -> None:
    view = NextSentence(NextSentence.Settings())
    lines = filled(sample.TRAIN)
    file = tmp_path / "lines.txt"
    for seed, doubted in ((None, False), (1, True)):
        order = range(len(lines)) if seed is None else np.random.default_rng(seed).permutation(len(lines))
        file.write_text("\n".join(lines[i] for i in order), encoding="utf-8")
        doubts = view.doubts(tokenise(Source(str(file)), encoder.tokenizer, 32))
        assert len(doubts) == doubted
        assert all(f"{file}: the lines seem to be shuffled" in doubt for doubt in doubts)


def test_the_pair_view_refuses_sentences() -> None:
    with pytest.raises(UserError, match=r"^toy\.txt: the pair view needs two or three texts per row, .*--columns"):
        build_part(Pair.Settings()).examples(corpus_of(DOCUMENTS), np.random.default_rng(0))
