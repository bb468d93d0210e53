"""Scores the searches by the labels so far: means over queries with intervals, and how much was judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opencse.labelling.labels import LabelledQuery
from opencse.labelling.pooling import Rankings
from opencse.numerals import number_of
from opencse.ranking import ndcg, reciprocal_rank
from opencse.statistics.difference import Interval
from opencse.statistics.queries import intervals_of_means, paired_queries
from opencse.statistics.seeds import summary

DEPTH = 10
FEWEST = 5
"""Queries from which scores are shown."""
WARNING = (
    "Only texts that one of these searches found were judged. A model whose index is not among them may find other "
    "right texts, and then scores too low; to compare it, label with its index too: "
    "opencse label INDEX INDEX --out FOLDER"
)


@dataclass(frozen=True)
class SystemScore:
    """How one search does, x 100.

    Attributes:
        ndcg_at_10: mean over the queries.
        interval: its 95 % interval over queries (t-distribution), within [0, 100]; None where all values are the same.
        mrr_at_10: mean reciprocal rank of the first text that is right or partly right.
        difference: mean difference of nDCG@10 to the first search (by vectors); None for that search itself.
        difference_interval: its 95 % interval; None where no query differs.
        judged: share of the first 10 hits that were judged.
    """

    ndcg_at_10: float
    interval: Interval | None
    mrr_at_10: float
    difference: float | None
    difference_interval: Interval | None
    judged: float


@dataclass(frozen=True)
class LabelScores:
    """The scores of the labels of a folder.

    Attributes:
        queries: number of queries with a right or partly right text, which the means are over.
        systems: by search: ``vectors``, ``BM25``, ``hybrid``, or ``vectors of NAME`` and so on with several indexes;
            empty with fewer than `FEWEST` queries.
        warning: what the scores cannot show.
    """

    queries: int
    systems: dict[str, SystemScore]
    warning: str = WARNING

    def lines(self) -> list[str]:
        """The scores as lines of text."""
        if not self.systems:
            answered = number_of(self.queries, "query has", "queries have")
            return [f"{answered} a right text; scores are shown from {FEWEST} on"]
        first, width = next(iter(self.systems)), max(map(len, self.systems))
        head = f"{'':{width}}  nDCG@10  {'95 % interval':15}  MRR@10  {'difference':20}  judged of first 10"
        rows = [
            f"{name:{width}}  {one.ndcg_at_10:7.1f}  {_range(one.interval):15}  {one.mrr_at_10:6.1f}  "
            f"{_difference(one):20}  {one.judged:.0%}"
            for name, one in self.systems.items()
        ]
        about = f"{number_of(self.queries, 'query')}, x 100; differences are from {first}"
        return [about, head, *rows, self.warning]


def score(queries: Sequence[LabelledQuery], rankings: Sequence[Rankings]) -> LabelScores:
    """Scores each search by the queries that have a right or partly right text.

    Args:
        queries: n of them.
        rankings: n by the same searches, of at least 10 hits each where the index has as many.
    """
    if len(queries) < FEWEST:
        return LabelScores(len(queries), {})
    values: dict[str, list[float]] = {}
    reciprocal: dict[str, list[float]] = {}
    judged: dict[str, list[bool]] = {}
    for query, ranking in zip(queries, rankings, strict=True):
        relevance = query.levels()
        for name, ids in ranking.ids.items():
            first = ids[:DEPTH]
            levels = [relevance.get(text_id, 0) for text_id in first]
            values.setdefault(name, []).append(100 * ndcg(levels, list(relevance.values()), DEPTH))
            reciprocal.setdefault(name, []).append(100 * reciprocal_rank(levels, DEPTH))
            judged.setdefault(name, []).extend(text_id in relevance for text_id in first)
    return LabelScores(len(queries), {name: _system(name, values, reciprocal, judged) for name in values})


def _system(
    name: str,
    values: Mapping[str, Sequence[float]],
    reciprocal: Mapping[str, Sequence[float]],
    judged: Mapping[str, Sequence[bool]],
) -> SystemScore:
    difference = difference_interval = None
    base = next(iter(values))
    if name != base:
        paired = paired_queries(np.array(values[name]), np.array(values[base]))
        difference, difference_interval = paired.difference, paired.interval
    return SystemScore(
        ndcg_at_10=summary(values[name]).mean,
        interval=intervals_of_means({name: np.array(values[name])})[name],
        mrr_at_10=summary(reciprocal[name]).mean,
        difference=difference,
        difference_interval=difference_interval,
        judged=sum(judged[name]) / max(1, len(judged[name])),
    )


def _range(interval: Interval | None) -> str:
    return "all the same" if interval is None else f"[{interval[0]:.1f}, {interval[1]:.1f}]"


def _difference(score: SystemScore) -> str:
    if score.difference is None:
        return ""
    interval = score.difference_interval
    return f"{score.difference:+.1f}" + ("" if interval is None else f" [{interval[0]:+.1f}, {interval[1]:+.1f}]")
