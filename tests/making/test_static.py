"""The encoder of counted words, against its own formulas computed from the texts another way."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from counted_words import SMALL, Array, D, cosines, static_encoder, table
from opencse.errors import UserError
from opencse.making import static
from opencse.making.cooccurrence import count_pairs, ppmi
from opencse.making.static import (
    Static,
    StaticSettings,
    build,
    leading_vectors,
    text_means,
    whitening,
)
from opencse.progress import Silent
from opencse.text.corpus import Corpus
from opencse.text.readers import Source
from opencse.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Words:
    """What the test itself knows of the text."""

    rows: list[list[int]]
    times: Counter[int]
    special: set[int]

    def weight(self, piece: int) -> float:
        return SMALL.sif / (SMALL.sif + self.times[piece] / self.times.total())


@pytest.fixture(scope="module")
def words(source: Source, tokenizer: Tokenizer) -> Words:
    hf = tokenizer.hf
    special = {hf.pad_token_id, hf.unk_token_id, hf.cls_token_id, hf.sep_token_id, hf.mask_token_id}
    encoded = hf([row[0] for row in source.read().rows], truncation=True, max_length=SMALL.positions)["input_ids"]
    rows = [[i for i in row if i not in special] for row in encoded]
    return Words(rows, Counter(i for row in rows for i in row), special)


@pytest.fixture(scope="module")
def vectors(made: Static) -> Array:
    return table(made.encoder)


def piece_vectors(words: Words, size: int) -> Array:
    """u_t of every piece, from loops and dense matrices."""
    counts = np.zeros((size, size))
    for row in words.rows:
        for k in range(1, SMALL.window + 1):
            for a, b in zip(row, row[k:], strict=False):
                counts[a, b] += 1 / k
                counts[b, a] += 1 / k
    rows = counts.sum(axis=1)
    context = rows**SMALL.smoothing / (rows**SMALL.smoothing).sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.log(counts / (rows[:, None] * context))
    positive = csr_array(np.where(counts > 0, np.maximum(information, 0), 0).astype(np.float32))
    # The spectrum of so small a text is flat: only the same projection gives the same last vectors.
    return leading_vectors(positive, D, np.random.default_rng(SMALL.seed))[0].astype(np.float64)


@pytest.mark.slow
def test_vectors_of_sentences_are_the_whitened_weighted_average(
    made: Static, words: Words, vectors: Array, source: Source, tokenizer: Tokenizer
) -> None:
    """The method written out, one sentence after another.

    Whitening leaves a rotation free, so the products of sentences are compared: (s - m) T T^T (s' - m) needs no T.
    """
    u = piece_vectors(words, tokenizer.vocabulary_size)
    averages = np.array([np.mean([words.weight(i) * u[i] for i in row], axis=0) for row in words.rows])
    mean, covariance = averages.mean(axis=0), np.cov(averages.T)
    bar = sum(words.weight(i) * n for i, n in words.times.items()) / words.times.total()
    own = np.array([np.mean([words.weight(i) for i in row]) for row in words.rows])
    plain = averages - own[:, None] / bar * mean
    expected = plain @ np.linalg.solve(covariance, plain.T)
    ours = np.array([np.mean([vectors[i] for i in row], axis=0) for row in words.rows])
    products = ours @ ours.T
    whole = slice(0, 600)  # the lone word at the end has no neighbour, so no vector
    scale = products[whole, whole].trace() / expected[whole, whole].trace()
    np.testing.assert_allclose(products[whole, whole] / scale, expected[whole, whole], atol=0.02)
    assert expected[whole, whole].std() > 1

    # The same of what `encode` gives: LayerNorm takes off the mean over coordinates, the rest keeps its direction.
    texts = [row[0] for row in source.read().rows][whole]
    centred = ours - ours.mean(axis=1, keepdims=True)
    same = cosines(made.encoder.encode(texts).astype(np.float64), centred[whole])
    assert np.median(same) > 0.999
    assert same.min() > 0.99


@pytest.mark.slow
def test_at_full_size_the_direction_is_the_average(tokenizer: Tokenizer, sentences: list[str], tmp_path: Path) -> None:
    path = tmp_path / "more.txt"
    path.write_text("\n".join(sentences[:1_000]) + "\n")
    encoder = static_encoder(Source(str(path)), tokenizer, StaticSettings(dimension=256, positions=64))
    sums = np.array([table(encoder)[ids].sum(axis=0) for ids in encoder.tokenize(sentences[:100])])
    assert np.median(cosines(encoder.encode(sentences[:100]).astype(np.float64), sums)) > 0.997


def test_whitening_gives_the_identity_as_covariance(made: Static, words: Words, corpus: Corpus) -> None:
    real = np.array([i not in words.special for i in range(len(table(made.encoder)))])
    generator = np.random.default_rng(0)
    raw = generator.standard_normal((len(real), D)) * np.linspace(0.1, 3, D)
    means = text_means(corpus, np.arange(len(corpus)), raw, real)
    expected = np.array([np.mean([raw[i] for i in row], axis=0) for row in words.rows if row])
    np.testing.assert_allclose(means, expected)
    mean, whitener = whitening(means)
    white = (means - mean) @ whitener
    np.testing.assert_allclose(np.cov(white.T), np.eye(D), atol=1e-9)
    np.testing.assert_allclose(white.mean(axis=0), 0, atol=1e-9)


def test_whitening_does_not_blow_up_an_empty_direction() -> None:
    vectors = np.random.default_rng(0).standard_normal((200, 3)) * [1.0, 0.5, 0.0]
    mean, whitener = whitening(vectors)
    assert np.abs(whitener).max() < 150
    assert np.allclose(((vectors - mean) @ whitener)[:, 0], 0, atol=1e-9)


def test_size_of_the_coordinates(words: Words, vectors: Array) -> None:
    mean_square = sum(n * (vectors[i] ** 2).mean() for i, n in words.times.items()) / words.times.total()
    assert mean_square**0.5 == pytest.approx(0.06, rel=1e-4)


def test_pieces_without_a_neighbour_have_the_zero_vector(
    made: Static, words: Words, vectors: Array, tokenizer: Tokenizer
) -> None:
    met = {i for row in words.rows if len(row) > 1 for i in row}
    for piece in range(len(vectors)):
        assert vectors[piece].any() == (piece in met), tokenizer.hf.convert_ids_to_tokens(piece)
    assert words.special.isdisjoint(met)
    assert set(words.times) - met, "a piece that was seen, but alone"
    assert len(vectors) - len(words.special) > len(words.times), "a piece that was never seen"
    assert made.pieces == len(met)


def test_pairs_are_counted_once(made: Static, words: Words) -> None:
    near = {
        tuple(sorted((a, b)))
        for row in words.rows
        for k in range(1, SMALL.window + 1)
        for a, b in zip(row, row[k:], strict=False)
    }
    assert any(a == b for row in words.rows for a, b in pairwise(row))
    assert made.pairs == len(near)


def test_a_text_of_unseen_pieces_has_the_zero_vector(made: Static, words: Words, tokenizer: Tokenizer) -> None:
    unseen = [i for i in range(tokenizer.vocabulary_size) if i not in words.times and i not in words.special]
    tokens = tokenizer.hf.convert_ids_to_tokens(unseen)
    texts = [next(t for t in tokens if not t.startswith("##")), "漢", ""]
    assert not made.encoder.encode(texts).any()
    assert np.isfinite(made.encoder.encode(texts, normalize_embeddings=True)).all()
    assert np.isfinite(made.encoder.similarity(texts, ["the bread"])).all()


@pytest.mark.slow
def test_the_seed_decides(corpus: Corpus, source: Source, tokenizer: Tokenizer, made: Static) -> None:
    state = torch.get_rng_state()
    again = static_encoder(source, tokenizer, SMALL)
    assert torch.equal(torch.get_rng_state(), state), "the global generator is left alone"
    for name, weight in made.encoder.state_dict().items():
        assert torch.equal(weight, again.state_dict()[name]), name
    other = build(corpus, tokenizer, SMALL.model_copy(update={"seed": 7})).encoder
    query = "backbone.encoder.layer.0.attention.self.query.weight"
    assert not torch.equal(other.state_dict()[query], again.state_dict()[query])


def test_whitening_takes_a_random_sample_of_a_large_text(
    corpus: Corpus, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[NDArray[np.int64]] = []

    def recorded(
        corpus: Corpus, rows: NDArray[np.int64], table: NDArray[np.floating], real: NDArray[np.bool_]
    ) -> NDArray[np.floating]:
        taken.append(rows)
        return text_means(corpus, rows, table, real)

    monkeypatch.setattr(static, "_SAMPLE", 100)
    monkeypatch.setattr(static, "text_means", recorded)
    for seed in (1, 1, 2):
        build(corpus, tokenizer, SMALL.model_copy(update={"seed": seed}))
    first, again, other = (set(rows.tolist()) for rows in taken)
    assert first == again != other
    assert len(first) == len(taken[0]) == 100
    assert max(first) > 400
    assert first < set(range(len(corpus)))


class Bars(Silent):
    """Keeps (what, in all, done) of every bar."""

    def __init__(self) -> None:
        self.bars: list[tuple[str, int, int]] = []

    def start(self, title: str, total: int, done: int = 0) -> None:
        self.bars.append((title, total, done))

    def advance(self, done: int, note: str = "") -> None:
        self.bars[-1] = (*self.bars[-1][:2], done)


def test_leading_vectors_are_numpys() -> None:
    """On a falling spectrum of a matrix that is not symmetric, so that left and right vectors are told apart."""
    draw = np.random.default_rng(1)
    left, right = (np.linalg.qr(draw.standard_normal((120, 120)))[0] for _ in range(2))
    dense = (left * 0.9 ** np.arange(120)) @ right.T
    found, values = leading_vectors(csr_array(dense.astype(np.float32)), 10, np.random.default_rng(0))
    np.testing.assert_allclose(values, 0.9 ** np.arange(10), rtol=1e-4)
    assert np.linalg.svd(found.T @ left[:, :10])[1].min() > 0.999
    assert np.linalg.svd(found.T @ right[:, :10])[1].min() < 0.9
    again = leading_vectors(csr_array(dense.astype(np.float32)), 10, np.random.default_rng(0))[0]
    np.testing.assert_array_equal(found, again)


def test_progress_reports_every_stage(corpus: Corpus, tokenizer: Tokenizer) -> None:
    told = Bars()
    build(corpus, tokenizer, SMALL, told)
    assert [what for what, _, _ in told.bars] == ["counting pairs", "factorising"]
    assert all(done == total >= 1 for _, total, done in told.bars)


def test_all_texts_of_a_pair_are_read(tmp_path: Path, tokenizer: Tokenizer, sentences: list[str]) -> None:
    path = tmp_path / "pairs.tsv"
    rows = [(a, b) for a, b in zip(sentences[:100], sentences[100:200], strict=True) if "\t" not in a + b]
    path.write_text("anchor\tpositive\n" + "".join(f"{a}\t{b}\n" for a, b in rows).replace('"', ""))
    flat = tmp_path / "flat.txt"
    flat.write_text("".join(f"{a}\n{b}\n" for a, b in rows).replace('"', ""))
    both, single = (table(static_encoder(Source(str(p)), tokenizer, SMALL)) for p in (path, flat))
    np.testing.assert_allclose(both, single, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 3}, "heads 3 does not divide dimension 16; take heads 2"),
        ({"heads": 99}, "heads 99 does not divide dimension 16; take heads 16"),
        ({"dimension": 6400}, "dimension 6400 is above the"),
        ({"positions": 3}, "positions 3 leaves no room for two pieces and 2 special tokens"),
    ],
)
def test_settings_that_do_not_fit(source: Source, tokenizer: Tokenizer, changes: dict[str, int], message: str) -> None:
    settings = StaticSettings(**(SMALL.model_dump() | changes))
    with pytest.raises(UserError, match=message) as told:
        static_encoder(source, tokenizer, settings)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b c\n" * 100, r"too little text \(3 different pieces, where at least 16 are needed\); give more"),
        ("a b c d e f g h i j k l m n o p q r\n", r"\(1 texts with words, where at least 17"),
        ("".join(f"{letter}\n" for letter in "abcdefghijklmnopqrstuvwxyz"), r"\(0 independent word vectors"),
    ],
)
def test_too_little_text(text: str, message: str, tmp_path: Path, tokenizer: Tokenizer) -> None:
    path = tmp_path / "little.txt"
    path.write_text(text)
    with pytest.raises(UserError, match=message) as told:
        static_encoder(Source(str(path)), tokenizer, SMALL)
    assert str(told.value).startswith(str(path))
    assert "\n" not in str(told.value)


def test_window_and_smoothing_are_heeded(made: Static, corpus: Corpus, tokenizer: Tokenizer) -> None:
    narrow = build(corpus, tokenizer, SMALL.model_copy(update={"window": 1}))
    assert narrow.pairs < made.pairs
    plain = build(corpus, tokenizer, SMALL.model_copy(update={"smoothing": 1.0}))
    assert plain.pairs == made.pairs
    assert not np.allclose(table(plain.encoder), table(made.encoder), atol=1e-3)


def test_plain_average_has_the_factors_themselves_as_word_vectors(corpus: Corpus, tokenizer: Tokenizer) -> None:
    plain = SMALL.model_copy(update={"sif": float("inf"), "whiten": False})
    words_of = table(build(corpus, tokenizer, plain).encoder)
    real = np.ones(len(words_of), dtype=np.bool_)
    real[tokenizer.hf.all_special_ids] = False
    counts = count_pairs(corpus, real, window=plain.window)
    factors, _ = leading_vectors(ppmi(counts, plain.smoothing), D, np.random.default_rng(plain.seed))
    met = np.linalg.norm(words_of, axis=1) > 0
    assert met.sum() > 100
    scale = np.linalg.norm(words_of[met]) / np.linalg.norm(factors[met])
    assert np.allclose(words_of[met], scale * factors[met], atol=1e-5)
