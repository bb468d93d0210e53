"""Measures of one query's ranking, as trec_eval defines them; each takes relevance levels and gives a value in [0, 1].

``found`` holds the relevance of the ranked documents, the best first, 0 for those not judged; ``judged`` holds the
relevance of every document judged for the query, ranked or not, at least one of them above 0. Levels of 0 and below
mean not relevant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def ndcg(found: Sequence[int], judged: Sequence[int], k: int) -> float:
    r"""Normalised discounted cumulative gain of the first k (Järvelin and Kekäläinen 2002), gain = relevance.

    .. math:: \text{nDCG@}k = \frac{\sum_{r=1}^{k} g_r / \log_2(r + 1)}{\sum_{r=1}^{k} g^*_r / \log_2(r + 1)}

    :math:`g_r` is the relevance at rank r, :math:`g^*` all judged relevances in descending order. This is
    trec_eval's ``ndcg_cut``; others take the gain :math:`2^{g} - 1`, the same for levels 0 and 1.
    """
    return _discounted(found, k) / _discounted(sorted(judged, reverse=True), k)


def recall(found: Sequence[int], judged: Sequence[int], k: int) -> float:
    r"""The part of all relevant documents that is among the first k; trec_eval's ``recall``."""
    return _relevant(found[:k]) / _relevant(judged)


def reciprocal_rank(found: Sequence[int], k: int) -> float:
    """1 / rank of the first relevant document, 0 if there is none among the first k (MRR@k of one query)."""
    return next((1 / rank for rank, level in enumerate(found[:k], start=1) if level > 0), 0.0)


def average_precision(found: Sequence[int], judged: Sequence[int], k: int) -> float:
    r"""Mean over all R relevant documents of the precision at their ranks, 0 for those not among the first k.

    .. math:: \text{AP@}k = \frac1R \sum_{r \le k,\; g_r > 0} \frac{|\{r' \le r : g_{r'} > 0\}|}{r}

    trec_eval's ``map_cut``: divided by R even where R is above k.
    """
    precisions = [_relevant(found[:rank]) / rank for rank, level in enumerate(found[:k], start=1) if level > 0]
    return math.fsum(precisions) / _relevant(judged)


def _discounted(levels: Sequence[int], k: int) -> float:
    return math.fsum(max(level, 0) / math.log2(rank + 1) for rank, level in enumerate(levels[:k], start=1))


def _relevant(levels: Sequence[int]) -> int:
    return sum(level > 0 for level in levels)
