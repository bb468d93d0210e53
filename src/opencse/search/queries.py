"""Ranks the rows of a snapshot for queries: by vectors, by vectors and keywords together, or by a cross-encoder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import Floats, Integers
from opencse.errors import UserError
from opencse.progress import Count, uncounted
from opencse.ranking import PreparedVectors, nearest_prepared
from opencse.reranking.second_stage import SecondStage
from opencse.search.database import Manifest, StoredRow
from opencse.search.filters import Where
from opencse.search.hybrid import DEPTH, RowsInMemory, WordScores, candidates_of, places_of
from opencse.search.keyword_index import KeywordIndex
from opencse.search.result import Hit, SearchResult
from opencse.search.snapshots import Snapshot


def require_limits(k: int, hybrid_weight: float | None) -> None:
    """Refuses limits of a search outside their ranges.

    Raises:
        UserError: for a ``k`` below 1, or a weight outside [0, 1].
    """
    if k < 1:
        raise UserError(f"k is the number of rows to find, at least 1, not {k}")
    if hybrid_weight is not None and not 0 <= hybrid_weight <= 1:
        raise UserError(f"hybrid_weight is the weight of the vectors, from 0 to 1, not {hybrid_weight}")


def prepare_queries(vectors: NDArray[np.floating] | None, manifest: Manifest) -> PreparedVectors:
    """Checks the vectors of queries and prepares them like the index's; None gives (0, d).

    Of an index that keeps the first dimensions, vectors of all dimensions of the model are truncated.
    """
    if vectors is None:
        return np.zeros((0, manifest.dimension), dtype=np.float32)
    rows = np.atleast_2d(vectors)
    widths = [width for width in (manifest.dimension, manifest.encoded_dimension) if width is not None]
    if rows.ndim != 2 or rows.dtype.kind not in "fiu" or rows.shape[1] not in widths:
        shapes = " or ".join(f"(n, {width})" for width in widths)
        raise UserError(f"queries are a {shapes} array of numbers, not {vectors.dtype} of {vectors.shape}")
    if not np.isfinite(rows).all():
        raise UserError("queries: a vector holds NaN or infinity; the model's weights are damaged, or the array")
    return manifest.prepared(rows)


def distinct(snapshot: Snapshot, search: Callable[[int], list[list[Hit]]], k: int) -> list[list[Hit]]:
    """Finds k hits of different texts for each query, the first of equal ones for all of them.

    Documents in several passages are compared as a whole: a passage that two of them share does not make them equal.

    Args:
        snapshot: the snapshot of the index.
        search: finds some number of hits, of any texts; fewer where there are no more.
        k: number of hits.
    """
    count = int(k) + 1  # one more text, after which no copy of the others follows
    while True:
        found, merged = search(count), []
        for hits in found:
            by_text: dict[str, list[Hit]] = {}
            times, whole = Counter(hit.text for hit in hits), dict[str, str]()
            if snapshot.manifest.passages and (ids := [hit.id for hit in hits if times[hit.text] > 1]):
                for row in snapshot.rows_with_ids(ids):
                    whole[row.id] = f"{whole.get(row.id, '')} {row.text}"
            for hit in hits:
                by_text.setdefault(whole.get(hit.id, hit.text), []).append(hit)
            merged.append([replace(one[0], copies=tuple(hit.id for hit in one[1:])) for one in by_text.values()])
        if all(len(one) > k or len(hits) < count for one, hits in zip(merged, found, strict=True)):
            return [one[:k] for one in merged]
        count *= 4


def search_vectors(
    snapshot: Snapshot, queries: PreparedVectors, k: int, threshold: float | None, where: Where | None
) -> list[list[Hit]]:
    """Finds the k rows, or documents, with the most similar vectors for each query.

    Args:
        snapshot: the snapshot of the index.
        queries: (n, d) prepared vectors.
        k: number of hits.
        threshold: lowest similarity; None: any.
        where: conditions on metadata.
    """
    depth = k
    while True:
        positions, scores = _nearest(snapshot, queries, depth, where)
        rankings = [
            [
                (position, score)
                for position, score in zip(row, values, strict=True)
                if position >= 0 and (threshold is None or score >= threshold)
            ]
            for row, values in zip(positions.tolist(), scores.tolist(), strict=True)
        ]
        hits = _hits(snapshot, rankings, k)
        # Where documents have several passages, the first k rows may be of fewer than k documents. A ranking that
        # ended before the depth has no more rows.
        complete = all(len(one) == k or len(ranking) < depth for one, ranking in zip(hits, rankings, strict=True))
        if complete or not snapshot.manifest.passages:
            return hits
        depth *= 4


def search_hybrid(
    snapshot: Snapshot,
    texts: Sequence[str],
    queries: PreparedVectors,
    k: int,
    where: Where | None,
    weight: float,
) -> list[list[Hit]]:
    """Finds the k documents that are best by vectors and keywords together; see `opencse.search.hybrid.candidates_of`.

    Candidates are the first ``max(100, 4 k)`` of each list. A hit shows the passage that is best by the same rule, with
    the document's own passages in place of all documents.

    Args:
        snapshot: the snapshot of the index.
        texts: n queries.
        queries: (n, d) their prepared vectors.
        k: number of hits.
        where: conditions on metadata.
        weight: w, in [0, 1].
    """
    if not snapshot.manifest.rows:
        return [[] for _ in texts]
    depth = max(DEPTH, 4 * k)
    nearest, _ = _nearest(snapshot, queries, depth, where)
    matching = None if where is None else snapshot.matching(where)
    allowed = None if matching is None else np.isin(snapshot.positions[snapshot.firsts], matching)
    hits: list[list[Hit]] = []
    for text, query, near in zip(texts, queries, nearest, strict=True):
        words = WordScores.of(snapshot.keywords, text, allowed)
        documents, scores = candidates_of(query, near, words, snapshot, depth).ranking(weight)
        rows = _passages(snapshot, documents[:k], text, query, weight, words.covered)
        hits.append([hit_of(*one, snapshot.manifest) for one in zip(rows, scores.tolist(), strict=False)])
    return hits


def hit_of(row: StoredRow, score: float, manifest: Manifest) -> Hit:
    """Makes a hit of a stored row."""
    return Hit(row.id, score, row.text, dict(zip(manifest.columns, row.values, strict=True)))


def _passages(
    snapshot: Snapshot, documents: Integers, text: str, query: NDArray[np.float32], weight: float, covered: float
) -> list[StoredRow]:
    """Of each document its best passage, by vectors and keywords."""
    places, begins = places_of(snapshot, documents)
    positions = np.split(snapshot.positions[places], begins[1:]) if len(documents) else []
    stored, best = snapshot.rows_at(snapshot.positions[places]), []
    for one in positions:
        rows = [stored[position] for position in one.tolist()]
        row = 0
        if len(rows) > 1:
            scores = KeywordIndex.of([row.text for row in rows], snapshot.manifest.language).scores(text)
            passages = RowsInMemory(np.asarray(snapshot.vectors[one]), snapshot.similarity)
            words = WordScores(scores, covered)
            row = candidates_of(query, passages.positions, words, passages, len(rows)).ranking(weight)[0][0]
        best.append(rows[row])
    return best


def _nearest(snapshot: Snapshot, queries: PreparedVectors, k: int, where: Where | None) -> tuple[Integers, Floats]:
    """(n, at most k) positions and similarities, best first; -1 where there are fewer.

    With conditions the search is always exact.
    """
    positions = snapshot.matching(where)
    if snapshot.approximate is None or where is not None:
        return nearest_prepared(queries, snapshot.vectors, k, positions, similarity=snapshot.similarity)
    return snapshot.approximate.search(queries, k, positions)


def _hits(snapshot: Snapshot, rankings: Sequence[Sequence[tuple[int, float]]], k: int) -> list[list[Hit]]:
    """The first k of each ranking, each document once with its best passage."""
    rows = snapshot.rows_at({position for ranking in rankings for position, _ in ranking})
    hits = []
    for ranking in rankings:
        best: dict[str, Hit] = {}
        for position, score in ranking:
            if len(best) < k:
                hit = hit_of(rows[position], score, snapshot.manifest)
                best.setdefault(hit.id, hit)
        hits.append(list(best.values()))
    return hits


def reranked(
    first: SearchResult,
    queries: Sequence[str],
    k: int,
    stage: SecondStage,
    *,
    threshold: float | None = None,
    progress: Count = uncounted,
) -> SearchResult:
    """Orders the hits of each query by the scores of a cross-encoder, which take the place of theirs.

    Args:
        first: the hits that a search returned for the queries: at least k of them and those to re-rank.
        queries: the texts of the queries.
        k: number of hits for each query. All of them are scored, also where that is more than the stage's depth.
        stage: the cross-encoder.
        threshold: lowest score of the cross-encoder; None: any.
        progress: called with (pairs done, pairs in all).
    """
    deep = replace(stage, depth=max(stage.depth, k))
    orders = deep.reranked(queries, [[hit.text for hit in hits] for hits in first], progress)
    hits = [
        [
            replace(hits[position], score=score)
            for position, score in order[:k]
            if threshold is None or score >= threshold
        ]
        for hits, order in zip(first, orders, strict=True)
    ]
    return SearchResult(hits, "cross-encoder", first.language, first.similarity)
