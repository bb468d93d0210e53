"""Exact nearest neighbours, and measures of rankings: nDCG, MRR, recall and average precision.

Equal similarities are ranked in the order of the corpus, and no result depends on blocks or on the processor.

A ranking is written as ``levels``: the relevance of the ranked documents, the best first, 0 for those not judged.
``judged`` holds the relevance of every document judged for the query, ranked or not, at least one of them above 0.
Levels of 0 and below mean not relevant. The measures are defined as in trec_eval and lie in [0, 1].
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import Floats, Integers, Vectors
from opencse.errors import UserError
from opencse.modules.similarity import Similarity
from opencse.statistics.correlation import cosine_of_rows

PreparedVectors = NDArray[np.float32]
"""(n, d) vectors as `Similarity.prepared` returns them; may be memory-mapped."""
MeasureName = Literal["ndcg", "mrr", "recall"]

SPARE = 16
"""Candidates beyond k that are scored again, so that ties which float32 separates are complete before the k best are
taken."""
_QUERIES = 64  # searched at a time, so that the arrays of their candidates stay small
_PAIRS = 4_096  # scored at a time in float64
_FIRST_BLOCK, _BLOCK = 4_096, 65_536  # rows of the corpus compared with _QUERIES queries at a time
_JOINING = 100_000  # scores of a block that are expected to be above what is best so far
_RANKED_QUERIES = 256  # compared with all candidates at a time


# --- the nearest rows ---


def nearest_rows(
    queries: Vectors, corpus: Vectors, k: int, similarity: Similarity = Similarity.COSINE
) -> tuple[Integers, Floats]:
    r"""Finds the k rows of a corpus that are most similar to each query.

    `nearest_prepared` finds candidates in float32; they are scored again in float64 from the vectors as given, pair by
    pair, so that equal vectors tie.

    Args:
        queries: (n, d), finite.
        corpus: (m, d), finite.
        k: how many, at least 1; at most m are returned.
        similarity: the function that compares them.

    Returns:
        (n, min(k, m)) rows of the corpus, the most similar first and equal ones in corpus order, and
        their similarities.

    Raises:
        ValueError: for k below 1, an empty corpus, or vectors of different lengths.

    Example:
        >>> corpus = np.array([[1.0, 0.0], [3.0, 4.0], [0.0, 2.0], [6.0, 8.0]])
        >>> rows, cosines = nearest_rows(np.array([[0.0, 1.0]]), corpus, k=3)
        >>> rows.tolist(), cosines.round(2).tolist()
        ([[2, 1, 3]], [[1.0, 0.8, 0.8]])
    """
    prepared = similarity.prepared(queries), similarity.prepared(corpus)
    candidates, _ = nearest_prepared(*prepared, k + SPARE, similarity=similarity)
    score = cosine_of_rows if similarity is Similarity.COSINE else similarity.of_pairs
    width = min(k, len(corpus))
    rows = np.empty((len(queries), width), dtype=np.int64)
    scores = np.empty((len(queries), width))
    for start in range(0, len(queries), _QUERIES):
        block = slice(start, start + _QUERIES)
        exact = _pair_scores(queries[block], corpus, candidates[block], score)
        rows[block], scores[block] = best_candidates(candidates[block], exact, width)
    return rows, scores


def nearest_prepared(
    queries: PreparedVectors,
    vectors: PreparedVectors,
    k: int,
    among: Integers | None = None,
    *,
    similarity: Similarity = Similarity.COSINE,
) -> tuple[Integers, Floats]:
    r"""Finds the k rows most similar to each query, of prepared vectors (see `Similarity`); exact.

    Candidates are found in float32 and scored again in float64, pair by pair, so that neither blocks nor the
    processor change the order. As :math:`|\mathrm{fl}(q \cdot v) - q \cdot v| \le d\,2^{-24}` for unit vectors, it is
    known when no other row can be one of the k; where it is not (many equal texts), more candidates are taken.

    Args:
        queries: (n, d) prepared.
        vectors: (m, d) prepared; may be memory-mapped.
        k: how many.
        among: (p,) ascending rows of ``vectors`` to search; None: all.
        similarity: the function that they are prepared for.

    Returns:
        (n, min(k, p)) rows of ``vectors``, the nearest first and equal ones in their order, and their similarities.

    Example:
        >>> vectors = np.array([[1, 0], [0.6, 0.8], [0, 1]], dtype=np.float32)
        >>> rows, similarities = nearest_prepared(vectors[:1], vectors, 2, np.array([1, 2]))
        >>> rows.tolist(), similarities.round(2).tolist()
        ([[1, 2]], [[0.6, 0.0]])
    """
    available = len(vectors) if among is None else len(among)
    width = min(k, available)
    nearest = np.empty((len(queries), width), dtype=np.int64)
    scores = np.empty((len(queries), width))
    if not width:
        return nearest, scores
    slack = similarity.slack(queries, vectors)
    # A query without a direction is equally near to all rows, and would take more and more candidates.
    undirected = ~queries.any(axis=1) & similarity.is_product
    nearest[undirected], scores[undirected] = np.arange(width) if among is None else among[:width], 0.0
    searched = np.flatnonzero(~undirected)
    for start in range(0, len(searched), _QUERIES):
        pending = searched[start : start + _QUERIES]
        count = width + SPARE
        while len(pending):
            count = min(count, available)
            candidates, rough = _candidates(queries[pending], vectors, count, among, similarity)
            exact = similarities(queries[pending], vectors, candidates, similarity)
            nearest[pending], scores[pending] = best_candidates(candidates, exact, width)
            if count == available:
                break
            last = similarity.on_rough_scale(scores[pending, width - 1])
            # Where float32's rounding could hide a better row, more candidates are taken.
            pending = pending[last <= rough.min(axis=1) + slack]
            count *= 4
    return nearest, scores


def similarities(queries: PreparedVectors, vectors: PreparedVectors, rows: Integers, similarity: Similarity) -> Floats:
    """Returns the similarity (n, c) of each query with its own ``rows`` (n, c) of the vectors, in float64."""
    vectors, scores = np.asarray(vectors), np.empty(rows.shape)  # a memory map itself is slower to index
    step = max(1, _PAIRS // max(1, rows.shape[1]))
    for start in range(0, len(rows), step):
        block = slice(start, start + step)
        scores[block] = similarity.of_candidates(queries[block], vectors[rows[block]])
    return scores


def _pair_scores(
    queries: Vectors, vectors: Vectors, rows: Integers, score: Callable[[Vectors, Vectors], Floats]
) -> Floats:
    """Scores (n, c) of each query with its ``rows`` (n, c), each pair by itself."""
    of_query, of_vector = np.repeat(np.arange(len(queries)), rows.shape[1]), rows.ravel()
    parts = [np.empty(0)]
    for start in range(0, len(of_vector), _PAIRS):
        block = slice(start, start + _PAIRS)
        parts.append(score(queries[of_query[block]], vectors[of_vector[block]]))
    return np.concatenate(parts).reshape(rows.shape)


def best_candidates(candidates: Integers, scores: Floats, width: int) -> tuple[Integers, Floats]:
    """Returns the ``width`` best candidates (n, c) of each query, equal ones by row, and their scores."""
    order = np.lexsort((candidates, -scores))[:, :width]
    queries = np.arange(len(order))[:, None]
    return candidates[queries, order], scores[queries, order]


def _candidates(
    queries: PreparedVectors, vectors: PreparedVectors, count: int, among: Integers | None, similarity: Similarity
) -> tuple[Integers, NDArray[np.float32]]:
    """The ``count`` best rows of each query in float32, unordered, and their rough scores.

    Blocks grow from few rows, so that hardly a row of the later ones is above what a query has already. For few queries
    they are larger, where no rows are copied: what is done once for each block would count in the time.
    """
    available = len(vectors) if among is None else len(among)
    best = np.empty((len(queries), 0), dtype=np.float32)
    best_rows = np.empty((len(queries), 0), dtype=np.int64)
    copies = among is not None or not similarity.is_product
    most = _BLOCK if copies else max(_BLOCK, _BLOCK * _QUERIES // len(queries))
    growth = max(2, _JOINING // (len(queries) ** 2 * count))
    start, size = 0, min(_BLOCK, max(_FIRST_BLOCK, count))
    while start < available:
        end = min(start + size, available)
        block = vectors[start:end] if among is None else vectors[among[start:end]]
        rows = np.arange(start, end) if among is None else among[start:end]
        scores = similarity.rough(queries, block)
        if best.shape[1] == count:
            # Most columns of later blocks are below the worst candidate of every query.
            above = np.flatnonzero((scores > best.min(axis=1, keepdims=True)).any(axis=0))
            scores, rows = scores[:, above], rows[above]
        best = np.concatenate([best, scores], axis=1)
        best_rows = np.concatenate([best_rows, np.broadcast_to(rows, scores.shape)], axis=1)
        if best.shape[1] > count:
            top = np.argpartition(best, -count, axis=1)[:, -count:]
            best, best_rows = np.take_along_axis(best, top, axis=1), np.take_along_axis(best_rows, top, axis=1)
        start, size = end, min(growth * size, most)
    return best_rows, best


# --- the rank of one answer ---


def answer_ranks(
    queries: Vectors,
    candidates: Vectors,
    answers: Integers,
    own_rows: Integers,
    similarity: Similarity = Similarity.COSINE,
) -> Integers:
    """Returns the rank, from 1, of each query's one answer among all candidates.

    Other candidates of the very same similarity come before the answer, so that an encoder which gives every text one
    vector gets the worst rank.

    Args:
        queries: (n, d) vectors.
        candidates: (m, d) vectors.
        answers: (n,) row of the answer among the candidates.
        own_rows: (n,) row of the query itself among the candidates, which is not counted; -1 where it is not one.
        similarity: the function that compares them.

    Example:
        >>> candidates = np.array([[1.0, 0.0], [1.0, 0.2], [0.0, 1.0]])
        >>> answer_ranks(candidates[:1], candidates, answers=np.array([1]), own_rows=np.array([0])).tolist()
        [1]
        >>> answer_ranks(candidates[:1], candidates, answers=np.array([1]), own_rows=np.array([-1])).tolist()
        [2]
    """
    prepared_queries, prepared = similarity.prepared(queries), similarity.prepared(candidates)
    ranks = np.empty(len(queries), dtype=np.int64)
    for start in range(0, len(queries), _RANKED_QUERIES):
        block = slice(start, start + _RANKED_QUERIES)
        scores = similarity.rough(prepared_queries[block], prepared)
        rows = np.arange(len(scores))
        of_answer = scores[rows, answers[block]].copy()
        is_candidate = own_rows[block] >= 0
        scores[rows[is_candidate], own_rows[block][is_candidate]] = -np.inf
        # >=: a tie counts against the answer.
        ranks[block] = (scores >= of_answer[:, None]).sum(axis=1)
    return ranks


# --- measures ---


def ndcg(levels: Sequence[int], judged: Sequence[int], k: int) -> float:
    r"""Normalised discounted cumulative gain of the first k (Järvelin and Kekäläinen 2002), gain = relevance.

    .. math:: \text{nDCG@}k = \frac{\sum_{r=1}^{k} g_r / \log_2(r + 1)}{\sum_{r=1}^{k} g^*_r / \log_2(r + 1)}

    :math:`g_r` is the relevance at rank r, :math:`g^*` all judged relevances in descending order. This is
    trec_eval's ``ndcg_cut``; others take the gain :math:`2^{g} - 1`, the same for levels 0 and 1.

    Example:
        >>> round(ndcg([0, 1, 0, 2], judged=[1, 2, 1], k=10), 4)
        0.4766
    """
    return _discounted(levels, k) / _discounted(sorted(judged, reverse=True), k)


def recall(levels: Sequence[int], judged: Sequence[int], k: int) -> float:
    r"""The part of all relevant documents that is among the first k; trec_eval's ``recall``.

    Example:
        >>> recall([0, 1, 0, 2], judged=[1, 2, 1, 1], k=10)
        0.5
    """
    return _relevant(levels[:k]) / _relevant(judged)


def reciprocal_rank(levels: Sequence[int], k: int) -> float:
    """1 / rank of the first relevant document, 0 if there is none among the first k (MRR@k of one query).

    Example:
        >>> reciprocal_rank([0, 1, 0, 2], k=10), reciprocal_rank([0, 1, 0, 2], k=1)
        (0.5, 0.0)
    """
    return next((1 / rank for rank, level in enumerate(levels[:k], start=1) if level > 0), 0.0)


def average_precision(levels: Sequence[int], judged: Sequence[int], k: int) -> float:
    r"""Mean over all R relevant documents of the precision at their ranks, 0 for those not among the first k.

    .. math:: \text{AP@}k = \frac1R \sum_{r \le k,\; g_r > 0} \frac{|\{r' \le r : g_{r'} > 0\}|}{r}

    trec_eval's ``map_cut``: divided by R even where R is above k.

    Example:
        >>> average_precision([0, 1, 0, 2], judged=[1, 2, 1, 1], k=10)
        0.25
    """
    precisions = [_relevant(levels[:rank]) / rank for rank, level in enumerate(levels[:k], start=1) if level > 0]
    return math.fsum(precisions) / _relevant(judged)


def _discounted(levels: Sequence[int], k: int) -> float:
    return math.fsum(max(level, 0) / math.log2(rank + 1) for rank, level in enumerate(levels[:k], start=1))


def _relevant(levels: Sequence[int]) -> int:
    return sum(level > 0 for level in levels)


@dataclass(frozen=True)
class Measure:
    """A measure of rankings, computed from the first k results.

    Attributes:
        name: ``ndcg``, ``mrr`` or ``recall``.
        k: how many results a user would look at.

    Example:
        >>> measure = Measure.parse("MRR@10")
        >>> print(measure, measure.of_ranks(np.array([1, 4, 11])).tolist())
        MRR@10 [100.0, 25.0, 0.0]
        >>> measure.of_ranking([0, 1, 0], judged=[1, 1])
        50.0
    """

    name: MeasureName = "ndcg"
    k: int = 10

    @classmethod
    def parse(cls, text: str) -> Measure:
        """Reads ``ndcg@10``, ``mrr@10``, ``recall@100`` and the like, in any letter case.

        Raises:
            UserError: for anything else.
        """
        match = re.fullmatch(r"(ndcg|mrr|recall)@([1-9]\d{0,3})", text.strip().lower())
        if match is None:
            raise UserError(f"unknown metric {text!r}; known: ndcg@K, mrr@K, recall@K, for instance ndcg@10")
        name: MeasureName = "ndcg" if match[1] == "ndcg" else "mrr" if match[1] == "mrr" else "recall"
        return cls(name, int(match[2]))

    def __str__(self) -> str:
        return f"{ {'ndcg': 'nDCG', 'mrr': 'MRR', 'recall': 'recall'}[self.name] }@{self.k}"

    def of_ranks(self, ranks: Integers) -> Floats:
        r"""Returns the values (n,) x 100 of queries whose one answer has rank r from 1; 0 beyond k.

        .. math:: \text{nDCG} = 1 / \log_2(r + 1), \quad \text{MRR} = 1 / r, \quad \text{recall} = 1
        """
        values = {"ndcg": 1 / np.log2(ranks + 1.0), "mrr": 1 / ranks, "recall": np.ones(len(ranks))}[self.name]
        return np.where(ranks <= self.k, 100 * values, 0.0)

    def of_ranking(self, levels: Sequence[int], judged: Sequence[int]) -> float:
        """Returns the value x 100 of one query's ranking; see `ndcg`, `reciprocal_rank` and `recall`."""
        match self.name:
            case "ndcg":
                return 100 * ndcg(levels, judged, self.k)
            case "mrr":
                return 100 * reciprocal_rank(levels, self.k)
            case "recall":
                return 100 * recall(levels, judged, self.k)
