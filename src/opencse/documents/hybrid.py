"""Fits the weight of the vectors in a hybrid search to people's queries with known answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from opencse.arrays import Floats, Integers, Vectors
from opencse.documents.dev_choice import QUESTIONS_FILE, SavedQuestions, UserQueries
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.text_encoder import TextEncoder
from opencse.errors import UserError
from opencse.evaluation.embedding import embed_for_search
from opencse.evaluation.retrieval.rankers import ByBoth, TaskKeywords
from opencse.files import remove
from opencse.model_folder.description import write_hybrid_weight
from opencse.modules.prompts import Role
from opencse.modules.similarity import HybridWeight
from opencse.numerals import number_of
from opencse.progress import Progress
from opencse.ranking import nearest_prepared
from opencse.search.hybrid import DEPTH, SearchedRows, WordScores, candidates_of, weight_of_encoder
from opencse.search.keyword_index import KeywordIndex
from opencse.search.passages import PassageSplitter
from opencse.search.rows import require_same_texts
from opencse.search.snapshots import Snapshot
from opencse.statistics.queries import MeanDifference, grouped_difference
from opencse.training.questions import quick

SHARES = np.round(np.linspace(0, 1, 21), 2)
"""The weights that are tried."""
TRUST = 50
"""Of n queries the fit counts n / (n + `TRUST`), and the default the rest."""
_RESAMPLES = 500


@dataclass(frozen=True)
class FittedWeight:
    """A fitted weight, and what hybrid search gains with it on the queries that it was fitted on.

    Attributes:
        weight: of the vectors.
        by_share: (21,) mean score of all queries at each of `SHARES`.
        questions: number of queries.
        over_better: difference of hybrid search from the better of its two parts.
    """

    weight: HybridWeight
    by_share: Floats
    questions: int
    over_better: MeanDifference

    def line(self, measure: str) -> str:
        """Describes the weight and the scores in one line, for the user."""
        score = self.by_share[_nearest(self.weight.value)]
        low, high = self.over_better.interval
        return (
            f"hybrid     weight of the vectors {self.weight}: {measure} {score:.2f}, vectors alone "
            f"{self.by_share[-1]:.2f}, BM25 alone {self.by_share[0]:.2f} ({self.over_better.value:+.2f} over the "
            f"better one, 95% interval {low:+.2f} to {high:+.2f})"
        )

    def record(self) -> dict[str, object]:
        """Plain values for JSON: weight, source, questions, the scores by weight, and the gain over the better part."""
        return {
            "weight": self.weight.value,
            "source": self.weight.source,
            "questions": self.questions,
            "scores": dict(zip(map(str, SHARES.tolist()), self.by_share.tolist(), strict=True)),
            "over_better": {"difference": self.over_better.value, "interval": list(self.over_better.interval)},
        }


def fit_weight(values: Floats, units: Integers, source: str, default: float) -> FittedWeight:
    r"""Fits the weight of the vectors: near the best one for people's queries, and between it and the default.

    :math:`\bar w` is the mean of the best weights in resamples of the n queries, which is stable where the curve is
    flat, and

    .. math:: w = w_0 + \frac{n}{n + 50}\,(\bar w - w_0)

    so that a small or unusual set of queries cannot move it far. Last, where vectors alone or BM25 alone are
    significantly better than w, it moves to the nearest weight that is not significantly worse than them.

    Args:
        values: (n, 21) measure x 100 of each query at each of `SHARES`.
        units: (n,) what each query comes from; queries of one unit are not independent.
        source: what the queries are, for the user.
        default: w_0, the weight without queries.

    Returns:
        The weight, rounded to two digits.

    Example:
        >>> best_at_03 = 60 - 40 * (SHARES - 0.3) ** 2 + np.zeros((200, 1))
        >>> fit_weight(best_at_03, np.arange(200), "200 queries", 0.5).weight
        HybridWeight(value=0.34, source='200 queries')
    """
    count = len(np.unique(units))
    weight = default + count / (count + TRUST) * (_best_share(values, units) - default)
    for end in (-1, 0):
        weight = _not_worse_than_end(weight, values, units, end=end)
    weight = round(float(weight), 2)
    better = 0 if values[:, 0].mean() > values[:, -1].mean() else -1
    difference = grouped_difference(values[:, better], values[:, _nearest(weight)], units)
    return FittedWeight(HybridWeight(weight, source), values.mean(axis=0), len(values), difference)


def _best_share(values: Floats, units: Integers) -> float:
    """The mean of the best weights over resamples of the units; equal scores share it."""
    _, unit = np.unique(units, return_inverse=True)
    count = int(unit.max()) + 1
    sums = np.zeros((count, len(SHARES)))
    np.add.at(sums, unit, values)
    draws = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), size=_RESAMPLES)
    totals = draws @ sums
    best = totals >= totals.max(axis=1, keepdims=True) - 1e-9
    return float(((best * SHARES).sum(axis=1) / best.sum(axis=1)).mean())


def _not_worse_than_end(weight: float, values: Floats, units: Integers, *, end: int) -> float:
    """The weight nearest to ``weight``, towards an end, whose scores are not significantly worse than the end's."""
    shares = SHARES[weight < SHARES] if end else SHARES[weight > SHARES][::-1]
    for share in (weight, *shares):
        difference = grouped_difference(values[:, _nearest(share)], values[:, end], units)
        if not difference.interval[0] > 0:
            return float(share)
    return float(SHARES[end])


def _nearest(weight: float) -> int:
    """The number of the share nearest to a weight."""
    return int(np.abs(SHARES - weight).argmin())


FEWEST_QUERIES = 20
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
    if len(task.queries) < FEWEST_QUERIES:
        raise UserError(
            f"{task.name}: has {number_of(len(task.queries), 'query', 'queries')} with a relevant document; a weight "
            f"needs at least {FEWEST_QUERIES}: label more queries"
        )
    if len(answered) < FEWEST_QUERIES:
        raise UserError(
            f"{task.name}: {len(answered):,} of {len(task.queries):,} queries have a relevant document in "
            f"{snapshot.folder}, by its id; a weight needs at least {FEWEST_QUERIES}; "
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
    return fit_weight(values, np.arange(len(texts)), _source_of(texts, task.name), default)


def fit_to_queries(encoder: SentenceEncoder, queries: UserQueries) -> FittedWeight | None:
    """Fits the weight to the queries that an encoder was selected by; None where they are too few."""
    if len(queries.task.queries) < FEWEST_QUERIES:
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

    words = TaskKeywords().of(task)
    values = values_by_share(task.queries, similarity.prepared(embedded.queries.of(task.queries)), rows, words, score)
    default = weight_of_encoder(encoder, words.language).value
    return fit_weight(values, queries.units, _source_of(task.queries, task.name), default)


def _source_of(queries: Sequence[str], name: str) -> str:
    return f"{number_of(len(queries), 'query')} of {name}"


def fit_with_model(
    folder: Path,
    queries: UserQueries | None = None,
    *,
    device: str | None = None,
    trust_remote_code: bool,
    progress: Progress,
) -> None:
    """Fits the weight to the queries that selected the model in ``folder``; their names are then deleted there.

    Where there are none, or too few, no weight is saved: the default holds.

    Args:
        folder: of a run that has finished.
        queries: by default those that were named when the run began.
        device: that encodes.
        trust_remote_code: run the code of the model's folder.
        progress: receives the weight and its scores.
    """
    if queries is None:
        saved = SavedQuestions.read(folder)
        if saved is None:
            return
        try:
            queries = saved.opened()
        except UserError as error:
            progress.say(f"hybrid     no weight is fitted: {error}")
            return
    encoder = SentenceEncoder.load(folder, device=device, trust_remote_code=trust_remote_code)
    fitted = fit_to_queries(encoder, queries)
    if fitted is not None:
        write_hybrid_weight(folder, fitted.weight)
        progress.say(fitted.line(str(queries.metric)))
    remove(folder / QUESTIONS_FILE)
