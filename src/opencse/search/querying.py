"""How an index at one moment answers queries: by vectors, or by vectors and words together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from opencse.arrays import Floats, Integers
from opencse.errors import UserError
from opencse.modules.similarity import Similarity
from opencse.ranking import PreparedVectors, nearest_prepared, similarities
from opencse.search.database import HAS_ID, Facts, Stored, sql_columns
from opencse.search.engines import Engine
from opencse.search.filters import Where, sql_of
from opencse.search.kept_words import keywords_of, place_of
from opencse.search.keywords import Keywords, best_rows
from opencse.search.result import Hit
from opencse.search.store import Store

HYBRID_WEIGHT = 0.5
"""Share of the vectors in a hybrid search."""
DEPTH = 100
"""Ranks of each list that are candidates of a hybrid search, at least."""
_SAMPLE = 4_096
"""Rows that tell how low cosines to a query go."""


@dataclass(frozen=True)
class State:
    """An index at one moment.

    Attributes:
        store: its rows.
        facts: what is true of it.
        vectors: (slots, d) prepared for the index's similarity, memory-mapped.
        alive: the living places, ascending; None: all.
        engine: the approximate index; None: search is exact.
    """

    store: Store
    facts: Facts
    vectors: PreparedVectors
    alive: Integers | None
    engine: Engine | None

    @property
    def similarity(self) -> Similarity:
        """What vectors are compared by."""
        return self.facts.similarity

    @property
    def places(self) -> Integers:
        """The living places, ascending."""
        return np.arange(len(self.vectors)) if self.alive is None else self.alive

    @cached_property
    def keywords(self) -> Keywords:
        """The words of all living rows; read or counted when they are first asked for."""
        name = place_of(self.store.name, self.facts.version, self.facts.language)
        return keywords_of(
            self.store.folder,
            name,
            self.facts.rows,
            lambda: [row[3] for row in self.store.select("1", [], self.facts)],
            self.facts.language,
        )

    @cached_property
    def sample(self) -> PreparedVectors:
        """(at most 4096, d) vectors of living rows, evenly spread over the index."""
        places = self.places
        return np.asarray(self.vectors[places[:: -(-len(places) // _SAMPLE)]])

    def among(self, where: Where | None) -> Integers | None:
        """The places that meet conditions; None: all there are."""
        return (
            self.alive
            if where is None
            else self.store.places(*sql_of(where, sql_names(self.facts), self.facts.columns), self.facts)
        )

    def named(self, ids: Sequence[str]) -> list[Stored]:
        """The rows with some ids, in the ids' order.

        Raises:
            UserError: for an id that is not there.
        """
        found: dict[str, list[Stored]] = {}
        for row in self.store.select(HAS_ID, [json.dumps(list(ids))], self.facts):
            found.setdefault(row[1], []).append(row)
        for name in ids:
            if name not in found:
                raise UserError(f"{self.store.folder}: no row has the id {name[:80]!r}")
        return [row for name in ids for row in found[name]]

    def nearest(self, queries: PreparedVectors, k: int, where: Where | None) -> tuple[Integers, Floats]:
        """(n, at most k) places and similarities, the nearest first; -1 where there are fewer.

        With conditions the search is always exact.
        """
        among = self.among(where)
        if self.engine is None or where is not None:
            return nearest_prepared(queries, self.vectors, k, among, similarity=self.similarity)
        return self.engine.search(queries, self.vectors, k, among)


def dense(
    state: State, queries: PreparedVectors, k: int, threshold: float | None, where: Where | None
) -> list[list[Hit]]:
    """The k rows, or documents, nearest to each query."""
    most = k
    while True:
        places, scores = state.nearest(queries, most, where)
        lists = [
            [
                (place, score)
                for place, score in zip(near, values, strict=True)
                if place >= 0 and (threshold is None or score >= threshold)
            ]
            for near, values in zip(places.tolist(), scores.tolist(), strict=True)
        ]
        found = _hits(state, lists, k)
        # Where documents have several passages, the first k rows may be of fewer documents; a list that ended early
        # has no more.
        whole = all(len(hits) == k or len(ranked) < most for hits, ranked in zip(found, lists, strict=True))
        if whole or not state.facts.passages:
            return found
        most *= 4


def hybrid(
    state: State, texts: Sequence[str], queries: PreparedVectors, k: int, where: Where | None, weight: float
) -> list[list[Hit]]:
    r"""The rows that are best by vectors and words together: a convex combination of scaled scores.

    .. math:: \text{score}(d) = w\,\frac{s(q, d) - l}{h - l} + (1 - w)\,\frac{\text{BM25}(q, d)}{b}

    with s the index's similarity (the cosine, where the model names no other), h the highest of it and b the highest
    BM25 score to the query, and l the lowest similarity, of at most 4096 rows
    evenly spread over the index (one below it counts as it); Bruch, Gai and Ingber 2023 ("An Analysis of Fusion
    Functions for Hybrid Retrieval"). Candidates are the first ``max(100, 4 k)`` of each list.

    Args:
        state: the index.
        texts: n queries.
        queries: (n, d) their L2-normalised vectors.
        k: how many rows.
        where: conditions on metadata.
        weight: w, in [0, 1].
    """
    if not state.facts.rows:
        return [[] for _ in texts]
    depth = max(DEPTH, 4 * k)
    places, _ = state.nearest(queries, depth, where)
    all_places = state.places
    among = None if where is None else state.among(where)
    may = None if among is None else np.isin(all_places, among)
    lists: list[list[tuple[int, float]]] = []
    for text, query, near in zip(texts, queries, places, strict=True):
        words = state.keywords.scores(text)
        if may is not None:
            words = np.where(may, words, 0.0)
        found = np.union1d(near[near >= 0], all_places[best_rows(words, depth)])
        if not len(found):
            lists.append([])
            continue
        near_scores = similarities(query[None], state.vectors, found[None], state.similarity)[0]
        low, high = float(state.similarity.scores(query[None], state.sample).min()), float(near_scores.max())
        by_vectors = np.clip((near_scores - low) / (high - low), 0, 1) if high > low else np.ones(len(found))
        by_words = words[np.searchsorted(all_places, found)] / max(float(words.max()), 1e-12)
        scores = weight * by_vectors + (1 - weight) * by_words
        order = np.lexsort((found, -scores))
        lists.append(list(zip(found[order].tolist(), scores[order].tolist(), strict=True)))
    return _hits(state, lists, k)


def _hits(state: State, lists: Sequence[Sequence[tuple[int, float]]], k: int) -> list[list[Hit]]:
    """The first k of each list, each document once."""
    rows = state.store.at({place for ranked in lists for place, _ in ranked}, state.facts)
    found = []
    for ranked in lists:
        best: dict[str, Hit] = {}
        for place, score in ranked:
            if len(best) < k:
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
