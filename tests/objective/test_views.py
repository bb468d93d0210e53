"""Which texts make an example, how two views of one sentence differ, and where spans of documents are."""

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
from opencse.kernels.states import MaskedTokens
from opencse.model_folder.backbone import dropout_rates
from opencse.model_folder.reading import load_masked_lm_head
from opencse.objective.inputs import InputBuilder
from opencse.objective.losses import masked_lm
from opencse.objective.negatives.derived import Layers
from opencse.objective.negatives.in_batch import InBatch
from opencse.objective.objective import Objective
from opencse.objective.registry import build as build_part
from opencse.objective.terms.tokens import MaskedLM
from opencse.objective.vectors.masking import MaskedCopy
from opencse.objective.vectors.represent import represent
from opencse.objective.vectors.requests import Masked, Sentences
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.objective.views.plain import Dropout, NextSentence, Pair
from opencse.objective.views.spans import Spans, span_length, special_tokens
from opencse.text import sample
from opencse.text.corpus import Corpus, CorpusFacts, tokenise
from opencse.text.readers import Source
from opencse.text.tokenizer import Tokenizer
from toy_documents import DOCUMENTS, corpus_of, pairs_of


def test_dropout_alone_needs_a_backbone_with_dropout(tiny_folder: Path) -> None:
    """The other views differ by their texts; a user who set the rate to 0 gets equal views."""
    still, lively = (SentenceEncoder.load(tiny_folder, dropout=rate, device="cpu") for rate in (0.0, 0.1))
    for view in (NextSentence(), Pair()):
        objective = Objective(view, negatives=[InBatch()])
        objective.check_encoder(still, "tiny")
    objective = Objective(Dropout(), negatives=[InBatch()])
    objective.check_encoder(lively, "tiny")
    objective.check_encoder(still, "tiny", own_dropout=False)
    with pytest.raises(
        UserError, match=r"^the view dropout makes two views by dropout, and tiny has none; .*encoder\.dropout=0\.1"
    ):
        objective.check_encoder(still, "tiny")
    alone = Objective(Dropout(), terms=[MaskedLM()])
    alone.check_encoder(still, "tiny")


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


BEFORE, AFTER = 2, 3


def corpus(lengths: list[list[int]], max_length: int, width: int = 1) -> Corpus:
    """Documents of sentences of these lengths; every content token has an id of its own, from 100 on."""
    texts, documents, next_id = [], [], 100
    for number, sentences in enumerate(lengths):
        for length in sentences:
            texts.append([BEFORE, *range(next_id, next_id + length), AFTER])
            documents.append(number)
            next_id += length
    ids = np.concatenate([np.array(text) for text in texts])
    offsets = np.cumsum([0, *map(len, texts)])
    rows = len(texts) // width
    facts = CorpusFacts("toy.txt", "", rows, width, len(ids), 0, 0, len(lengths), max_length)
    keys = np.arange(len(texts), dtype=np.int64).reshape(-1, width)
    return Corpus(ids, offsets, keys, np.asarray(documents[:rows], dtype=np.int32), facts)


@pytest.fixture(scope="module")
def tokenizer(tiny_folder: Path) -> Tokenizer:
    made = Tokenizer.load(tiny_folder)
    assert special_tokens(made) == (1, 1)
    return made


def view(**settings: Any) -> Spans:
    return Spans(Spans.Settings.model_validate(settings))


def drawn(made: Spans, text: Corpus, tokenizer: Tokenizer, seed: int) -> list[list[tuple[int, int]]]:
    """The first and last content id of each anchor, followed by its positives."""
    examples = made.examples(text, np.random.default_rng())
    examples = examples[made.suitable(examples, text, tokenizer)]
    texts = made.draw(examples, text, tokenizer, np.random.default_rng(seed))
    n = len(texts.anchors)
    assert n == len(examples) * made.anchors
    assert len(texts.positives) == n * made.positives_per_anchor
    rows = []
    for i in range(n):
        spans = [texts.anchors[i], *texts.positives[i::n]]
        for ids in spans:
            assert (ids[0], ids[-1]) == (BEFORE, AFTER)
            assert (np.diff(ids[1:-1]) == 1).all(), "consecutive tokens of one document, no special ones between"
        rows.append([(int(ids[1]), int(ids[-2])) for ids in spans])
    return rows


@pytest.mark.parametrize("near", ["any", "adjacent", "subsumed"])
@pytest.mark.parametrize("gap", [1, 2])
def test_where_anchors_and_positives_are(tokenizer: Tokenizer, near: str, gap: int) -> None:
    longest, shortest = 12, 5  # 10 and 3 without special tokens
    text = corpus([[7] * 8, [4, 9, 9, 9, 9, 3]], longest)  # 56 and 43 tokens of content
    first, last = [100, 156], [155, 198]
    made = view(anchors=2, positives=3, shortest=shortest, near=near, gap=gap)
    overlaps = adjacent = inside = 0
    for seed in range(150):
        rows = drawn(made, text, tokenizer, seed)
        for document in (0, 1):
            (a1, b1), (a2, b2) = (rows[2 * document + i][0] for i in (0, 1))
            assert first[document] <= a1 <= b1 < a2 <= b2 <= last[document]
            assert a2 - b1 > gap * 10, "whole stretches are between two anchors"
        for number, ((start, stop), *positives) in enumerate(rows):
            assert 3 <= stop - start + 1 <= 10
            for a, b in positives:
                assert first[number // 2] <= a <= b <= last[number // 2]
                assert 3 <= b - a + 1 <= 10
                assert b >= start - 1, "it touches the anchor"
                assert a <= stop + 1, "it touches the anchor"
                is_inside, is_adjacent = start <= a and b <= stop, b == start - 1 or a == stop + 1
                inside, adjacent = inside + is_inside, adjacent + is_adjacent
                overlaps += not is_inside and not is_adjacent
    total = 150 * 4 * 3
    if near == "any":
        assert min(inside, adjacent, overlaps) > 0.05 * total
    else:
        assert (adjacent if near == "adjacent" else inside) == total


def test_lengths_have_the_means_of_their_distributions(tokenizer: Tokenizer) -> None:
    draws = 4_000
    random = np.random.default_rng(0)
    for shape, share, sd in (((4, 2), 2 / 3, 0.178), ((2, 4), 1 / 3, 0.178)):
        lengths = np.array([span_length(32, 512, shape, random) for _ in range(draws)])
        assert abs(lengths.mean() - (32 + 480 * share - 0.5)) < 4 * 480 * sd / draws**0.5
        assert 32 <= lengths.min() < lengths.max() < 512
    text = corpus([[20] * 200], 100)
    made, rows = view(anchors=1, positives=2, shortest=20), []
    for seed in range(300):
        rows += drawn(made, text, tokenizer, seed)
    lengths = np.array([[3 + b - a for a, b in row] for row in rows])
    mean = (lengths[:, 0].mean(), lengths[:, 1:].mean())
    assert made.mean_lengths(text) == pytest.approx((20 + 80 * 2 / 3, 20 + 80 / 3))
    assert mean == pytest.approx(made.mean_lengths(text), abs=4)


def test_short_documents_are_left_out(tokenizer: Tokenizer) -> None:
    text = corpus([[10] * 4, [10] * 3 + [9], [50], [5]], 12)
    made = view(anchors=2, shortest=5)
    examples = made.examples(text, np.random.default_rng())
    assert examples[:, :, 0].tolist() == [[0, 3], [4, 7], [8, 8], [9, 9]]
    assert made.suitable(examples, text, tokenizer).tolist() == [True, False, True, False]  # 40 tokens are needed
    long = corpus([[90]] * 4, 12)
    three = view(anchors=3, gap=3, shortest=5)
    assert three.suitable(three.examples(long, np.random.default_rng()), long, tokenizer).all()
    with pytest.raises(UserError, match=r"none of 4 documents has the 90 tokens that 3 anchors of up to 12 .* has 50"):
        three.suitable(examples, text, tokenizer)


def test_what_it_refuses(tokenizer: Tokenizer) -> None:
    with pytest.raises(UserError, match="reads one text per row, not 2"):
        view().examples(corpus([[5] * 4], 12, width=2), np.random.default_rng())
    text = corpus([[90]], 12)
    examples = view().examples(text, np.random.default_rng())
    with pytest.raises(UserError, match=r"shortest 32 is not between 3 and the longest span, data.max_length 12"):
        view(shortest=32).suitable(examples, text, tokenizer)
    with pytest.raises(UserError, match=r"2 positives in the view spans, and a part reads Layer .*positives=1"):
        Objective(view(), negatives=[InBatch(), Layers(Layers.Settings(layers=(-2,)))])
    Objective(view(positives=1), negatives=[InBatch(), Layers(Layers.Settings(layers=(-2,)))])


# A step


def builder(tokenizer: Tokenizer, path: Path, objective: Objective, left_out: Any = None) -> InputBuilder:
    return InputBuilder(tokenise(Source(str(path)), tokenizer, 16), tokenizer, objective, 0, left_out)


@pytest.fixture
def path(tmp_path: Path, sentences: list[str]) -> Path:
    documents = [sentences[i : i + 12] for i in range(0, 60, 12)]
    out = tmp_path / "documents.txt"
    out.write_text("\n\n".join("\n".join(one) for one in documents))
    return out


def test_the_rows_of_a_step(tokenizer: Tokenizer, path: Path) -> None:
    objective = Objective(view(anchors=2, positives=3, shortest=5), negatives=[InBatch()])
    inputs = builder(tokenizer, path, objective)
    chosen = np.array([3, 0, 4])
    step = inputs.build(chosen, 7)
    assert (step.examples, step.positives, len(step.tokens)) == (6, 3, 6 * 4)
    assert step.keys.shape == (6, 2)
    assert len(set(step.keys.flatten().tolist())) == 12
    again = inputs.build(chosen, 7)
    assert torch.equal(again.tokens.input_ids, step.tokens.input_ids)
    assert torch.equal(again.keys, step.keys)
    other = inputs.build(chosen, 8)
    assert not torch.equal(other.keys, step.keys)
    assert inputs.texts_per_example == 8
    assert objective.negatives_per_anchor(3, 0) == 5
    assert inputs.lengths.tolist() == [round(2 * (5 + 11 * 2 / 3 + 3 * (5 + 11 / 3)))] * 5
    assert {len(ids) for ids in inputs.longest(4)} == {16}


@pytest.mark.parametrize("read", [False, True])
def test_the_masked_copy_is_of_the_anchors_and_is_read_if_set(tokenizer: Tokenizer, path: Path, read: bool) -> None:
    term = MaskedLM(MaskedLM.Settings(texts="anchors", masked_contrast=read, rate=0.4))
    plain = Objective(view(shortest=5), negatives=[InBatch()])
    objective = Objective(view(shortest=5), negatives=[InBatch()], terms=[term])
    chosen = np.array([0, 1, 2])
    original = builder(tokenizer, path, plain).build(chosen, 0).tokens.input_ids
    step = builder(tokenizer, path, objective).build(chosen, 0)
    (copy,) = step.prepared.values()
    masked = copy.masked.tokens.input_ids
    assert masked.shape == (6, original.shape[1])
    assert copy.masked.positions.any()
    assert torch.equal(original[:6][copy.masked.positions], copy.labels)
    expected = torch.cat([masked, original[6:]]) if read else original
    assert torch.equal(step.tokens.input_ids, expected)
    assert not torch.equal(masked, original[:6])
