"""Answers people's queries by hybrid search at every weight of the vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from opencse.adapting.hybrid_fit import SHARES, FittedWeight, fit_weight
from opencse.adapting.text_questions import quick
from opencse.adapting.user_queries import UserQueries
from opencse.arrays import Floats, Integers, Vectors
from opencse.encoder.text_encoder import TextEncoder
from opencse.errors import UserError
from opencse.evaluation.embedding import embed_for_search
from opencse.evaluation.retrieval.rankers import ByBoth, evenly
from opencse.modules.prompts import Role
from opencse.numerals import number_of
from opencse.ranking import nearest_prepared
from opencse.search.hybrid import DEPTH, SearchedRows, WordScores, candidates_of, weight_of_encoder
from opencse.search.keyword_index import KeywordIndex
from opencse.search.passages import PassageSplitter
from opencse.search.rows import require_same_texts
from opencse.search.snapshots import Snapshot
from opencse.text.stems import language_of

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder

FEWEST = 20
"""Fewest queries that a weight is fitted on."""
RowScore = Callable[[int, Integers], float]
"""The measure x 100 of a query, given by its number, from its ranked documents."""


def values_by_share(
    queries: Sequence[str], vectors: Vectors, rows: SearchedRows, words: KeywordIndex, score: RowScore
) -> Floats:
    """Scores each query's hybrid search at each weight of the vectors.

    Args:
        queries: n texts.
        vectors: (n, d) of the queries, prepared.
        rows: that are searched.
        words: the keyword index of their documents, in their order.
        score: of a query's ranked documents.

    Returns:
        (n, 21) scores at each of `SHARES`.
    """
    near, _ = nearest_prepared(vectors, rows.vectors, DEPTH, rows.positions, similarity=rows.similarity)
    values = np.zeros((len(queries), len(SHARES)))
    for number, (text, query, nearest) in enumerate(zip(queries, vectors, near, strict=True)):
        candidates = candidates_of(query, nearest, WordScores.of(words, text), rows, DEPTH)
        values[number] = [score(number, candidates.ranking(float(share))[0]) for share in SHARES]
    return values


def fit_index_to_queries(snapshot: Snapshot, encoder: TextEncoder, queries: UserQueries) -> FittedWeight:
    """Fits the weight to a user's queries, whose relevant documents are in an index by their ids.

    Raises:
        UserError: where none of the relevant documents is in the index, too few queries have one, or the ids are those
            of other texts there.
    """
    task = queries.task
    stored = snapshot.select("1", [])
    ids = list(dict.fromkeys(row.id for row in stored))
    positions, left_out = task.positions, task.left_out(queries.keep_identical_ids)
    known = {positions.get(name) for name in ids}
    answered = [n for n, levels in enumerate(task.judged) if any(v > 0 and row in known for row, v in levels.items())]
    if len(task.queries) < FEWEST:
        raise UserError(
            f"{task.name}: has {number_of(len(task.queries), 'query', 'queries')} with a relevant document; a weight "
            f"needs at least {FEWEST}: label more queries"
        )
    if len(answered) < FEWEST:
        raise UserError(
            f"{task.name}: {len(answered):,} of {len(task.queries):,} queries have a relevant document in "
            f"{snapshot.folder}, by its id; a weight needs at least {FEWEST}; "
            "the documents of the index need the ids that the queries name"
        )
    relevant_rows = {row for levels in task.judged for row, level in levels.items() if level > 0}
    relevant = {name: task.documents[row] for name, row in positions.items() if row in relevant_rows}
    require_same_texts(snapshot.folder, task.name, relevant, ((row.id, row.text) for row in stored))
    texts = [task.queries[n] for n in answered]

    def score(number: int, rows: Integers) -> float:
        query = answered[number]
        levels = task.judged[query]
        # A document that the task lacks counts by its id.
        found: dict[Any, None] = dict.fromkeys(positions.get(ids[row], ids[row]) for row in rows.tolist())
        found.pop(left_out[query], None)
        ranked = [levels.get(name, 0) for name in list(found)[: queries.metric.k]]
        return queries.metric.of_ranking(ranked, list(levels.values()))

    vectors = snapshot.manifest.prepared(encoder.encode(texts, prompt=encoder.prompts.of(Role.QUERY)))
    values = values_by_share(texts, vectors, snapshot, snapshot.keywords, score)
    default = weight_of_encoder(encoder, snapshot.manifest.language).value
    return fit_weight(values, np.arange(len(texts)), _source(texts, task.name), default)


def fit_to_queries(encoder: SentenceEncoder, queries: UserQueries) -> FittedWeight | None:
    """Fits the weight to the queries that an encoder was selected by; None where they are too few."""
    if len(queries.task.queries) < FEWEST:
        return None
    task, model = queries.task, quick(encoder)
    both = ByBoth(0, split=PassageSplitter(encoder, encoder.max_length).split)
    embedded = embed_for_search(model, [(task.queries, both.texts(task))])
    similarity, metric = embedded.similarity, queries.metric
    rows = both.rows(task, embedded)
    left_out = task.left_out(queries.keep_identical_ids)

    def score(number: int, ranked: Integers) -> float:
        levels = task.judged[number]
        others = [row for row in ranked.tolist() if row != left_out[number]][: metric.k]
        return metric.of_ranking([levels.get(row, 0) for row in others], list(levels.values()))

    words = KeywordIndex.of(task.documents, language_of(evenly(task.documents)))
    values = values_by_share(task.queries, similarity.prepared(embedded.queries.of(task.queries)), rows, words, score)
    default = weight_of_encoder(encoder, words.language).value
    return fit_weight(values, queries.units, _source(task.queries, task.name), default)


def _source(queries: Sequence[str], name: str) -> str:
    return f"{number_of(len(queries), 'query')} of {name}"
