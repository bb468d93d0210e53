"""The encoder of counted words, against its own formulas computed from the texts another way."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from counted_words import SMALL, Array, D, static_encoder, table
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.making.static import (
    Static,
    StaticSettings,
    build,
    count_pairs,
    count_pieces,
    leading_vectors,
    ppmi,
    whitening,
)
from opencse.text.corpus import Corpus, CorpusFacts
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
    counts = naive(words.rows, SMALL.window, size)
    rows = counts.sum(axis=1)
    context = rows**SMALL.smoothing / (rows**SMALL.smoothing).sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.log(counts / (rows[:, None] * context))
    positive = csr_array(np.where(counts > 0, np.maximum(information, 0), 0).astype(np.float32))
    # The spectrum of so small a text is flat: only the same projection gives the same last vectors.
    return leading_vectors(positive, D, np.random.default_rng(SMALL.seed))[0].astype(np.float64)


@pytest.mark.slow
def test_vectors_of_sentences_are_the_whitened_weighted_average(
    words: Words, vectors: Array, tokenizer: Tokenizer
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


def test_whitening_does_not_blow_up_an_empty_direction() -> None:
    vectors = np.random.default_rng(0).standard_normal((200, 3)) * [1.0, 0.5, 0.0]
    mean, whitener = whitening(vectors)
    assert np.abs(whitener).max() < 150
    assert np.allclose(((vectors - mean) @ whitener)[:, 0], 0, atol=1e-9)


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


def test_settings_that_do_not_fit(source: Source, tokenizer: Tokenizer) -> None:
    for changes, message in (
        ({"heads": 3}, "heads 3 does not divide dimension 16; take heads 2"),
        ({"positions": 3}, "positions 3 leaves no room for two pieces and 2 special tokens"),
    ):
        with pytest.raises(UserError, match=message):
            static_encoder(source, tokenizer, StaticSettings(**(SMALL.model_dump() | changes)))


def test_too_little_text(tmp_path: Path, tokenizer: Tokenizer) -> None:
    path = tmp_path / "little.txt"
    for text, message in (
        ("a b c\n" * 100, r"too little text \(3 different pieces, where at least 16 are needed\); give more"),
        ("\n".join("abcdefghijklmnopqrstuvwxyz"), r"\(0 independent word vectors"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=message) as told:
            static_encoder(Source(str(path)), tokenizer, SMALL)
        assert str(told.value).startswith(str(path))


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


V = 12
CLS, SEP, UNK = 0, 1, 2
REAL = np.arange(V) > UNK
FACTS = CorpusFacts("a", "f", 0, 1, 0, 0, 0, 0, 99)


def corpus_of(texts: list[list[int]], *, ends: bool = True) -> Corpus:
    rows = [[CLS, *text, SEP] if ends else text for text in texts]
    offsets = np.cumsum([0, *map(len, rows)])
    count = len(rows)
    return Corpus(
        np.array([i for row in rows for i in row], dtype=np.int32),
        offsets.astype(np.int64),
        np.zeros((count, 1), dtype=np.int64),
        np.zeros(count, dtype=np.int32),
        FACTS,
    )


def naive(texts: list[list[int]], window: int, size: int = V) -> NDArray[np.float64]:
    counts = np.zeros((size, size))
    for text in texts:
        kept = [i for i in text if i > UNK]
        for place, a in enumerate(kept):
            for distance in range(1, window + 1):
                if place + distance < len(kept):
                    b = kept[place + distance]
                    counts[a, b] += 1 / distance
                    counts[b, a] += 1 / distance
    return counts


@pytest.fixture(scope="module")
def texts() -> list[list[int]]:
    """Forty texts of 0 to 14 ids; [UNK] is among them, and the last piece of the vocabulary is not."""
    generator = np.random.default_rng(3)
    made = [generator.integers(UNK, V - 1, size=length).tolist() for length in generator.integers(0, 15, size=40)]
    assert any(len(text) == 0 for text in made)
    assert any(a == b for text in made for a, b in pairwise(text))
    assert any(UNK in text[1:-1] for text in made)
    return made


@pytest.mark.parametrize("chunk", [1, 17, 10_000])
def test_chunks_change_nothing(texts: list[list[int]], chunk: int) -> None:
    corpus = corpus_of(texts, ends=False)
    counts = count_pairs(corpus, REAL, window=5, chunk=chunk)
    np.testing.assert_allclose(counts.toarray(), naive(texts, 5), rtol=1e-5)
    times = np.bincount(corpus.ids, minlength=V) * REAL
    np.testing.assert_array_equal(count_pieces(corpus, REAL, chunk=chunk), times)


def test_ppmi_equals_a_loop(texts: list[list[int]]) -> None:
    counts = naive(texts, 3)
    rows = [float(counts[a].sum()) for a in range(V)]
    whole = sum(r**0.75 for r in rows)
    expected = np.zeros((V, V))
    for a, b in zip(*np.nonzero(counts), strict=True):
        expected[a, b] = max(0.0, math.log(counts[a, b] / (rows[a] * rows[b] ** 0.75 / whole)))
    made = ppmi(count_pairs(corpus_of(texts), REAL, window=3), 0.75)
    np.testing.assert_allclose(made.toarray(), expected, atol=1e-5)
    assert made.nnz == (expected > 0).sum() < (counts > 0).sum()


def test_the_bert_computes_the_closed_form(source: Source, tokenizer: Tokenizer, corpus: Corpus) -> None:
    texts = [row[0] for row in source.read().rows][:50]
    for layers in (0, 1, 2):
        encoder = build(corpus, tokenizer, SMALL.model_copy(update={"layers": layers})).encoder
        e = table(encoder)
        spread = e.var(axis=1, keepdims=True)
        hidden = (e - e.mean(axis=1, keepdims=True)) / np.sqrt(1 + (2 * layers + 1) * spread / 0.5)
        expected = np.array([hidden[ids].mean(axis=0) for ids in encoder.tokenize(texts)])
        assert np.abs(expected).max() > 0.01
        np.testing.assert_allclose(encoder.encode(texts), expected, atol=1e-6)


def test_a_layer_can_be_trained(made: Static, tokenizer: Tokenizer) -> None:
    state = {name: tensor.clone() for name, tensor in made.encoder.state_dict().items()}
    ids = made.encoder.tokenize(["the bread rises in the sun"])
    vector = made.encoder(tokenizer.pad(ids)).sentence
    (vector**2).sum().backward()
    moved = {name for name, p in made.encoder.named_parameters() if p.grad is not None and p.grad.abs().max() > 0}
    made.encoder.zero_grad(set_to_none=True)
    assert {n for n in moved if n.endswith("output.dense.weight")} == {
        "backbone.encoder.layer.0.attention.output.dense.weight",
        "backbone.encoder.layer.0.output.dense.weight",
    }
    drawn = [t for n, t in state.items() if n.endswith(("query.weight", "intermediate.dense.weight"))]
    assert len(drawn) == 2
    assert all(0.01 < float(t.std()) < 0.03 for t in drawn), "BERT's initialisation"


def test_it_loads_with_the_same_vectors(made: Static, source: Source, tmp_path: Path) -> None:
    texts = [*(row[0] for row in source.read().rows[:20]), "", "one two three " * 60]
    expected = made.encoder.encode(texts)
    made.encoder.save(tmp_path / "m", card="card")
    loaded = SentenceEncoder.load(tmp_path / "m", device="cpu")
    assert loaded.max_length == SMALL.positions
    np.testing.assert_array_equal(loaded.encode(texts), expected)

    from transformers import AutoModel, AutoTokenizer

    plain, cut = AutoModel.from_pretrained(tmp_path / "m"), AutoTokenizer.from_pretrained(tmp_path / "m")
    batch = cut(texts, padding=True, truncation=True, return_tensors="pt")
    assert batch["input_ids"].shape[1] == SMALL.positions, "the tokenizer knows of the positions"
    with torch.inference_mode():
        states = plain.eval()(**batch).last_hidden_state
    mask = batch["attention_mask"][:, :, None]
    np.testing.assert_allclose((states * mask).sum(1) / mask.sum(1), expected, atol=1e-6)
