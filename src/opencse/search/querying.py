"""How an index at one moment answers queries: by vectors, or by vectors and words together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from opencse.search.engines import Engine
from opencse.search.exact import Places, Scores, Unit, nearest_units
from opencse.search.filters import Where, sql_of
from opencse.search.keywords import Keywords
from opencse.search.result import Hit
from opencse.search.store import Facts, Store, Stored, sql_columns

FUSION = 60
"""The constant of reciprocal rank fusion."""
DEPTH = 100
"""Ranks of each list that are fused, at least."""


@dataclass(frozen=True)
class State:
    """An index at one moment.

    Attributes:
        store: its rows.
        facts: what is true of it.
        vectors: (slots, d) L2-normalised, memory-mapped.
        alive: the living places, ascending; None: all.
        engine: the approximate index; None: search is exact.
    """

    store: Store
    facts: Facts
    vectors: Unit
    alive: Places | None
    engine: Engine | None

    @property
    def places(self) -> Places:
        """The living places, ascending."""
        return np.arange(len(self.vectors)) if self.alive is None else self.alive

    @cached_property
    def keywords(self) -> Keywords:
        """The words of all texts; made when they are first asked for."""
        return Keywords([row[3] for row in self.store.select("1", [], self.facts)], self.places)

    def among(self, where: Where | None) -> Places | None:
        """The places that meet conditions; None: all there are."""
        return self.alive if where is None else self.store.places(*sql_of(where, sql_names(self.facts)))

    def nearest(self, queries: Unit, k: int, where: Where | None) -> tuple[Places, Scores]:
        """(n, at most k) places and cosines, the nearest first; -1 where there are fewer.

        With conditions the search is always exact.
        """
        among = self.among(where)
        if self.engine is None or where is not None:
            return nearest_units(queries, self.vectors, k, among)
        return self.engine.search(queries, self.vectors, k, among)


def dense(state: State, queries: Unit, k: int, threshold: float | None, where: Where | None) -> list[list[Hit]]:
    """The k rows, or documents, nearest to each query."""
    most = k
    while True:
        places, scores = state.nearest(queries, most, where)
        lists = [
            [(place, score) for place, score in zip(near, values, strict=True) if place >= 0]
            for near, values in zip(places.tolist(), scores.tolist(), strict=True)
        ]
        found = _hits(state, lists, k, threshold)
        # Where documents have several passages, the first k rows may be of fewer documents.
        if not state.facts.passages or places.shape[1] < most or all(len(hits) == k for hits in found):
            return found
        most *= 4


def hybrid(state: State, texts: Sequence[str], queries: Unit, k: int, where: Where | None) -> list[list[Hit]]:
    r"""Both lists in one, by reciprocal rank fusion (Cormack, Clarke and Buettcher 2009).

    .. math:: \text{score}(d) = \sum_{r \in \{\text{vectors}, \text{words}\}} \frac{1}{60 + r(d)}

    over the lists that hold d among their first ``max(100, 4 k)``; ranks count from 1.
    """
    depth = max(DEPTH, 4 * k)
    places, _ = state.nearest(queries, depth, where)
    among = None if where is None else state.among(where)
    mask = None if among is None else np.isin(state.places, among)
    lists = []
    for text, near in zip(texts, places.tolist(), strict=True):
        fused: dict[int, float] = {}
        for ranked in ([place for place in near if place >= 0], state.keywords.search(text, depth, mask)):
            for rank, place in enumerate(ranked, start=1):
                fused[place] = fused.get(place, 0.0) + 1 / (FUSION + rank)
        lists.append(sorted(fused.items(), key=lambda item: (-item[1], item[0])))
    return _hits(state, lists, k, None)


def _hits(
    state: State, lists: Sequence[Sequence[tuple[int, float]]], k: int, threshold: float | None
) -> list[list[Hit]]:
    """The first k of each list, each document once."""
    rows = state.store.at({place for ranked in lists for place, _ in ranked}, state.facts)
    found = []
    for ranked in lists:
        best: dict[str, Hit] = {}
        for place, score in ranked:
            if len(best) < k and (threshold is None or score >= threshold):
                hit = hit_of(rows[place], score, state.facts)
                best.setdefault(hit.id, hit)
        found.append(list(best.values()))
    return found


def hit_of(row: Stored, score: float, facts: Facts) -> Hit:
    """A row as it is told."""
    _, name, _, text, values = row
    return Hit(name, score, text, dict(zip(facts.columns, values, strict=True)))


def sql_names(facts: Facts) -> dict[str, str]:
    """The SQL name of everything that conditions may be about."""
    return {"id": "id", **sql_columns(facts.columns)}
