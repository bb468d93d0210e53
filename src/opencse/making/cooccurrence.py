"""Counts how often pieces occur near each other, and computes their positive pointwise mutual information."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from opencse.progress import Count
from opencse.text.corpus import Corpus

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_CHUNK = 8_000_000
_ROWS = 256


def count_pieces(corpus: Corpus, real: NDArray[np.bool_], *, chunk: int = _CHUNK) -> NDArray[np.int64]:
    """Counts how often each piece occurs.

    Args:
        corpus: the texts.
        real: (V,) whether a piece counts; special ones ([CLS], [SEP], [UNK]) do not.
        chunk: number of ids that are counted at a time.

    Returns:
        (V,) counts; zero for pieces that are not real.
    """
    counts = np.zeros(len(real), dtype=np.int64)
    for start in range(0, len(corpus.ids), chunk):
        counts += np.bincount(corpus.ids[start : start + chunk], minlength=len(real))
    counts[~real] = 0
    return counts


def count_pairs(
    corpus: Corpus,
    real: NDArray[np.bool_],
    *,
    window: int,
    chunk: int = _CHUNK,
    progress: Count | None = None,
) -> csr_array:
    """Counts how often two pieces occur near each other in one text; nearer pairs count more.

        C[a, b] = sum over k = 1 .. window of n_k(a, b) / k

    where n_k(a, b) is the number of times that one of a and b occurs k positions after the other; a piece k positions
    after itself counts twice, so that C is D + D^T for the ordered counts D. These are GloVe's counts (Pennington et
    al. 2014, section 4.2). Pieces that are not real are removed first, so that their neighbours become adjacent.

    Memory: the counts, and some 20 bytes for each of ``chunk`` ids.

    Args:
        corpus: the texts; every column of a row is a separate text.
        real: (V,) whether a piece counts; special ones ([CLS], [SEP], [UNK]) do not.
        window: largest distance.
        chunk: number of ids that are counted at a time; a longer text is a chunk by itself.
        progress: called with (ids done, ids in all).

    Returns:
        (V, V) float32, symmetric.
    """
    size = len(real)
    total = _matrix(np.zeros(0, np.float32), np.zeros(0, np.int32), np.zeros(size + 1, np.int32))
    for first, last in _chunks(corpus.offsets, chunk):
        total = total + _count_chunk(*_running(corpus, real, first, last), size, window)
        if progress is not None:
            progress(int(corpus.offsets[last]), len(corpus.ids))
    both: csr_array = (total + total.T).tocsr()
    return both


def _chunks(offsets: NDArray[np.int64], chunk: int) -> Iterator[tuple[int, int]]:
    """Ranges of whole texts with about ``chunk`` ids each, so that no pair lies across a border."""
    borders = np.searchsorted(offsets, np.arange(0, offsets[-1], chunk))
    borders = np.unique([*borders, len(offsets) - 1])
    yield from zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True)


def _running(
    corpus: Corpus, real: NDArray[np.bool_], first: int, last: int
) -> tuple[NDArray[np.integer], NDArray[np.int32]]:
    """The real ids of the texts from ``first`` to before ``last``, and the text that each is in."""
    offsets = corpus.offsets[first : last + 1]
    ids = np.asarray(corpus.ids[offsets[0] : offsets[-1]])
    text = np.repeat(np.arange(last - first, dtype=np.int32), np.diff(offsets))
    keep = real[ids]
    return ids[keep], text[keep]


def _count_chunk(ids: NDArray[np.integer], text: NDArray[np.int32], size: int, window: int) -> csr_array:
    """The upper triangle of the counts (the diagonal once): half the work, and half the memory, of both."""
    # A pair is one number; where it fits, 32 bits are sorted in half the time of 64.
    ids = ids.astype(np.uint32 if size * size <= 2**32 else np.int64)
    total = _matrix(np.zeros(0, np.float32), np.zeros(0, np.int32), np.zeros(size + 1, np.int32))
    for distance in range(1, min(window, len(ids) - 1) + 1):
        same = text[:-distance] == text[distance:]
        first, second = ids[:-distance][same], ids[distance:][same]
        pairs, times = np.unique(np.minimum(first, second) * size + np.maximum(first, second), return_counts=True)
        rows = pairs // size
        columns = (pairs - rows * size).astype(np.int32)
        starts = np.zeros(size + 1, dtype=np.int32)
        np.cumsum(np.bincount(rows, minlength=size), out=starts[1:])
        # A pair counts 1 / distance, as in GloVe.
        total = total + _matrix(times.astype(np.float32) / np.float32(distance), columns, starts)
    return total


def _matrix(data: NDArray[np.float32], columns: NDArray[np.int32], starts: NDArray[np.int32]) -> csr_array:
    from scipy.sparse import csr_array

    size = len(starts) - 1
    return csr_array((data, columns, starts), shape=(size, size))


def ppmi(counts: csr_array, smoothing: float) -> csr_array:
    """Computes positive pointwise mutual information with a smoothed context distribution.

        max(0, log(C[a, b] / (r_a q_b))),   r_a = sum_b C[a, b],   q_b = r_b^s / sum_c r_c^s

    (Levy, Goldberg & Dagan 2015, equations 1 and 2 and section 3.2; s = 0.75 there, no shift.)

    Args:
        counts: (V, V) symmetric; overwritten, because memory holds only one matrix of this size.
        smoothing: s; 1 is plain PPMI.

    Returns:
        (V, V) float32; not symmetric unless s = 1.
    """
    marginal = np.asarray(counts.sum(axis=1), dtype=np.float64)
    log_marginal = np.log(np.maximum(marginal, np.finfo(np.float64).tiny))
    # The power lowers the information of rare contexts (Levy, Goldberg and Dagan 2015, section 3.2).
    log_context = smoothing * log_marginal - np.log((marginal**smoothing).sum() or 1.0)
    data, starts = counts.data, counts.indptr
    # In place: this matrix is the largest thing in memory.
    np.log(data, out=data)
    for row in range(0, len(marginal), _ROWS):
        block = slice(starts[row], starts[min(row + _ROWS, len(marginal))])
        per_row = np.diff(starts[row : row + _ROWS + 1])
        data[block] -= np.repeat(log_marginal[row : row + _ROWS].astype(np.float32), per_row)
        data[block] -= log_context.astype(np.float32)[counts.indices[block]]
    np.maximum(data, 0, out=data)
    counts.eliminate_zeros()
    return counts
