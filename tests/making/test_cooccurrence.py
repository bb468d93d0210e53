"""Counting pairs and PPMI, against loops."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from opencse.making.cooccurrence import count_pairs, count_pieces, ppmi
from opencse.text.corpus import Corpus, CorpusFacts

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


@pytest.mark.parametrize("window", [1, 2, 5, 50])
def test_pairs_equal_a_double_loop(texts: list[list[int]], window: int) -> None:
    counts = count_pairs(corpus_of(texts), REAL, window=window)
    assert counts.dtype == np.float32
    assert counts.shape == (V, V)
    np.testing.assert_allclose(counts.toarray(), naive(texts, window), rtol=1e-5)


def test_the_end_of_a_text_is_the_end_of_its_pairs() -> None:
    counts = count_pairs(corpus_of([[3, 4], [5, 6]], ends=False), REAL, window=5).toarray()
    assert counts[3, 4] == counts[4, 3] == counts[5, 6] == 1
    assert counts.sum() == 4


def test_a_piece_next_to_itself_counts_twice() -> None:
    assert count_pairs(corpus_of([[7, 7]]), REAL, window=1).toarray()[7, 7] == 2


@pytest.mark.parametrize("chunk", [1, 3, 17, 100, 10_000])
def test_chunks_change_nothing(texts: list[list[int]], chunk: int) -> None:
    told: list[tuple[int, int]] = []
    corpus = corpus_of(texts)
    counts = count_pairs(corpus, REAL, window=5, chunk=chunk, progress=lambda *step: told.append(step))
    np.testing.assert_allclose(counts.toarray(), naive(texts, 5), rtol=1e-5)
    assert told[-1] == (len(corpus.ids), len(corpus.ids))
    assert told == sorted(set(told))
    assert (len(told) == 1) == (chunk >= len(corpus.ids))
    np.testing.assert_array_equal(count_pieces(corpus, REAL, chunk=chunk), count_pieces(corpus, REAL))


def test_pairs_of_a_vocabulary_too_large_for_32_bits() -> None:
    size = 70_000
    texts = [[69_999, 65_536, 69_998], [69_999, 3]]
    counts = count_pairs(corpus_of(texts), np.arange(size) > UNK, window=2).todok()
    expected = {(69_999, 65_536): 1.0, (65_536, 69_998): 1.0, (69_999, 69_998): 0.5, (69_999, 3): 1.0}
    assert dict(counts.items()) == expected | {(b, a): n for (a, b), n in expected.items()}


def test_pairs_of_the_largest_vocabulary_that_fits_32_bits() -> None:
    real = np.arange(2**16) > UNK
    corpus = corpus_of([[65_535, 65_535, 65_534]])
    corpus = replace(corpus, ids=corpus.ids.astype(np.uint16))  # as they are on disk
    counts = count_pairs(corpus, real, window=1).todok()
    assert dict(counts.items()) == {(65_535, 65_535): 2.0, (65_535, 65_534): 1.0, (65_534, 65_535): 1.0}


def test_pieces_are_counted_without_the_special_ones(texts: list[list[int]]) -> None:
    flat = [i for text in texts for i in text]
    expected = [flat.count(i) if i > UNK else 0 for i in range(V)]
    assert flat.count(UNK) > 0
    np.testing.assert_array_equal(count_pieces(corpus_of(texts), REAL), expected)


def test_texts_of_special_pieces_only_have_no_pairs() -> None:
    assert count_pairs(corpus_of([[], [UNK]]), REAL, window=5).nnz == 0
    assert ppmi(count_pairs(corpus_of([[]]), REAL, window=5), 0.75).nnz == 0


@pytest.mark.parametrize("smoothing", [1.0, 0.75])
def test_ppmi_equals_a_loop(texts: list[list[int]], smoothing: float) -> None:
    counts = naive(texts, 3)
    rows = [float(counts[a].sum()) for a in range(V)]
    whole = sum(r**smoothing for r in rows)
    expected = np.zeros((V, V))
    for a in range(V):
        for b in range(V):
            if counts[a, b]:
                expected[a, b] = max(0.0, math.log(counts[a, b] / (rows[a] * rows[b] ** smoothing / whole)))
    made = ppmi(count_pairs(corpus_of(texts), REAL, window=3), smoothing)
    assert made.dtype == np.float32
    np.testing.assert_allclose(made.toarray(), expected, atol=1e-5)
    assert made.nnz == (expected > 0).sum() < (counts > 0).sum()
    assert np.allclose(expected, expected.T) == (smoothing == 1)


def test_ppmi_works_through_more_rows_than_one_block() -> None:
    generator = np.random.default_rng(0)
    size = 700
    dense = np.triu(generator.random((size, size)) * (generator.random((size, size)) < 0.05))
    dense = dense + dense.T
    dense[300:600] = dense[:, 300:600] = 0
    rows = dense.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.log(dense / (rows[:, None] * rows**0.75 / (rows**0.75).sum()))
    expected = np.where(dense > 0, np.maximum(expected, 0), 0)
    made = ppmi(csr_array(dense.astype(np.float32)), 0.75).toarray()
    assert expected.any()
    np.testing.assert_allclose(made, expected, atol=1e-4)
