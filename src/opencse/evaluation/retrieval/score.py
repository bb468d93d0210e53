"""Retrieval: do the documents nearest to a query answer it?

BEIR's protocol (Thakur et al. 2021): every document is ranked by its vector's similarity to the query's, title and
text of a document are one text, and trec_eval's measures are averaged over queries. Differences: a document with the
query's id is left out only where it has the query's text, too, and is not judged relevant to it (BEIR's code removes it
always, trec_eval and pytrec_eval never, mteb for the tasks that say so); documents of the same text are ranked as one;
equal similarities are in corpus order (trec_eval: by id, descending); and queries without a relevant document are left
out and counted (BEIR's code counts them as 0).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from pydantic import Field, FiniteFloat

from opencse.evaluation.embedding import Embedded, EmbeddingModel, embed_for_search
from opencse.evaluation.record import EvaluationRecord, SuiteScore
from opencse.evaluation.retrieval.data import RetrievalData, RetrievalTask, load_retrieval
from opencse.evaluation.retrieval.rankers import ByVectors, Ranked, Ranker, rankings
from opencse.evaluation.suite import Options, Suite
from opencse.evaluation.table import MODEL, Cell, TableRow, results_table
from opencse.modules.similarity import Similarity
from opencse.numerals import number_of
from opencse.ranking import average_precision, ndcg, recall, reciprocal_rank
from opencse.settings import Settings
from opencse.statistics.difference import Interval, verdict
from opencse.statistics.queries import PairedQueries, intervals_of_means, paired_queries

if TYPE_CHECKING:
    from rich.table import Table

DEPTH = 100
_UNEVEN = 0.1
"""Difference between the shares of judged hits of two rows from which it is reported."""


MEASURES: dict[str, Callable[[Ranked], float]] = {
    "ndcg_at_10": lambda one: ndcg(one.levels, one.judged, 10),
    "mrr_at_10": lambda one: reciprocal_rank(one.levels, 10),
    "map_at_10": lambda one: average_precision(one.levels, one.judged, 10),
    "recall_at_1": lambda one: recall(one.levels, one.judged, 1),
    "recall_at_10": lambda one: recall(one.levels, one.judged, 10),
    "recall_at_100": lambda one: recall(one.levels, one.judged, 100),
}
"""The measures of one query's ranking, in [0, 1], by name."""


class ComparedRows(PairedQueries):
    """The difference of nDCG@10 between two rows of a table, over the same queries.

    Attributes:
        than: name of the other row.
    """

    than: str


class RetrievalScore(SuiteScore):
    """Measures of one retrieval data set x 100, each the mean over its queries; see ``opencse.ranking``.

    Attributes:
        ndcg_at_10: what BEIR and MTEB report.
        mrr_at_10: of the first relevant document.
        map_at_10: trec_eval's ``map_cut_10``.
        recall_at_1: part of the relevant documents among the first 1; likewise for 10 and 100.
        recall_at_10: see ``recall_at_1``.
        recall_at_100: see ``recall_at_1``.
        queries: queries in the means: those with a relevant document.
        without_relevant: judged queries left out, since no document is relevant to them.
        documents: documents searched.
        copies: of these, documents with the text of another one; they share its rank.
        identical_ids: documents that are a query, by id and text, and were left out of its ranking.
        similarity: the function that vectors were compared by; None: no vectors were.
        ranked_by: the scores that ranked the documents, with their weights.
        intervals: 95% interval of each measure, by its name: Student's t over the queries. None for a single query, or
            where all have the same value.
        by_query: nDCG@10 x 100 of each query by its id, for paired tests.
        judged_at_10: share of the first 10 documents that have a judgement; None where only relevant documents are
            judged. The others count as not relevant, so a model whose hits nobody judged scores too low.
    """

    ndcg_at_10: FiniteFloat
    mrr_at_10: FiniteFloat
    map_at_10: FiniteFloat
    recall_at_1: FiniteFloat
    recall_at_10: FiniteFloat
    recall_at_100: FiniteFloat
    queries: int
    without_relevant: int
    documents: int
    copies: int = 0
    identical_ids: int = 0
    similarity: Similarity | None = Similarity.COSINE
    ranked_by: str = Similarity.COSINE.value
    intervals: dict[str, Interval | None] = Field(default_factory=dict)
    by_query: dict[str, FiniteFloat] = Field(default_factory=dict, repr=False)
    judged_at_10: FiniteFloat | None = None

    def measures(self) -> dict[str, float]:
        """The measures by name, without the counts."""
        return self.model_dump(include=set(MEASURES))


class EvaluatedIndex(Settings):
    """The index whose searches were scored, in place of a model that encodes whole documents.

    Attributes:
        model: that made its vectors.
        kind: flat, hnsw or ivfpq.
        precision: in which its texts were encoded.
        dimensions: how many of the first dimensions of the model's vectors it keeps; None: all.
        documents: number of its documents.
        passages: number of its rows, into which long documents are split.
        max_length: tokens of the longest passage; None: texts are not split.
        overlap: tokens that two neighbouring passages may share.
        language: whose word stems a hybrid search compares; None: no stemming.
        absent: by data set, how many of its documents with text the index lacks; they count as not found.
        others: by data set, how many documents of the index it lacks; they count as not relevant.
    """

    model: str
    kind: str
    precision: str
    dimensions: int | None = None
    documents: int
    passages: int
    max_length: int | None
    overlap: int
    language: str | None
    absent: dict[str, int] = Field(default_factory=dict)
    others: dict[str, int] = Field(default_factory=dict)


class RetrievalResult(EvaluationRecord):
    """The record of a retrieval evaluation: ``retrieval.<data set>.ndcg_at_10`` and so on.

    Attributes:
        similarity: the function that vectors were compared by; None: no vectors were.
        ranked_by: the scores that ranked the documents, with their weights.
        split: which judgements were used.
        retrieval: scores by data set.
        average: plain mean of nDCG@10 over these data sets; compares only over the same ones.
        compared: by data set, the difference of nDCG@10 from another row; see `rows_with_keywords`
            and `compared_with_first`.
        compared_first: the difference from the row of the first model that is ranked likewise, if ``compared`` is
            another one.
        index: the index that was searched; None: a model's vectors of whole documents were ranked.
    """

    key = "retrieval"
    similarity: Similarity | None
    ranked_by: str = Similarity.COSINE.value
    split: str
    retrieval: dict[str, RetrievalScore]
    average: FiniteFloat
    compared: dict[str, ComparedRows] = Field(default_factory=dict)
    compared_first: dict[str, ComparedRows] = Field(default_factory=dict)
    index: EvaluatedIndex | None = None

    def scores(self) -> Mapping[str, RetrievalScore]:
        """See ``EvaluationRecord``."""
        return self.retrieval

    def means(self) -> dict[str, float | None]:
        """``average``: of nDCG@10 over the data sets."""
        return {"average": self.average}

    def compared_with(
        self, others: Mapping[str, tuple[str, RetrievalResult]], where: str = "compared"
    ) -> RetrievalResult:
        """This record with its differences from other rows, query by query.

        Args:
            others: by data set, the label of another row and its record.
            where: the attribute that holds the differences.
        """
        compared = {}
        for name, (label, other) in others.items():
            ours, theirs = (np.array([*one.retrieval[name].by_query.values()]) for one in (self, other))
            compared[name] = ComparedRows(**paired_queries(ours, theirs).model_dump(), than=label)
        return self.model_copy(update={where: compared})


@dataclass(frozen=True)
class Retrieval(Suite[RetrievalTask, RetrievalScore, RetrievalResult]):
    """Scores each data set by measures that are means over its queries, x 100.

    The texts are encoded one data set after another; their vectors are held in memory, the similarities in blocks.

    Attributes:
        similarity: the function that compares vectors; None: the model's.
        ranker: ranks documents; None: by vectors.
        split: name of the judgements.
        keep_identical_ids: rank a document that is the query, by id and text, also where it is not judged relevant.
    """

    name = "retrieval"
    title = "retrieval"
    folder = "retrieval"
    by_task = True
    similarity: Similarity | None = None
    ranker: Ranker | None = None
    split: str = "test"
    keep_identical_ids: bool = False

    @property
    def ranked(self) -> Ranker:
        """Ranks documents."""
        return self.ranker or ByVectors(self.similarity)

    @classmethod
    def of(cls, options: Options) -> Self:
        """See ``Suite``."""
        return cls(keep_identical_ids=options.keep_identical_ids)

    def load(self, folder: Path, tasks: Sequence[str] | None = None) -> RetrievalData:
        """See ``load_retrieval``."""
        return load_retrieval(folder, tasks, split=self.split)

    def score_names(self, data: RetrievalData) -> list[str]:
        """See ``Suite``."""
        return [f"retrieval.{task}.{measure}" for task in data.tasks for measure in MEASURES] + ["retrieval.average"]

    def embed(self, model: EmbeddingModel, tasks: Iterable[RetrievalTask]) -> Embedded:
        """Encodes queries and documents, each with its prompt where the model has one; see ``Suite``."""
        searches = [(task.queries, texts) for task in tasks if (texts := self.ranked.texts(task))]
        return embed_for_search(model, searches) if searches else Embedded([], np.empty((0, 0)))

    def score(self, task: RetrievalTask, embedded: Embedded, device: str = "cpu") -> RetrievalScore:
        """See ``Suite``."""
        left_out = task.left_out(self.keep_identical_ids)
        ranked = list(rankings(task, embedded, DEPTH, left_out, self.ranked))
        values = {name: 100 * np.array([measure(one) for one in ranked]) for name, measure in MEASURES.items()}
        return RetrievalScore(
            **{name: math.fsum(of_each) / len(of_each) for name, of_each in values.items()},
            intervals=intervals_of_means(values),
            by_query=dict(zip(task.query_ids, values["ndcg_at_10"].tolist(), strict=True)),
            queries=len(task.queries),
            without_relevant=task.without_relevant,
            documents=len(task.documents) + len(task.copies),
            copies=len(task.copies),
            identical_ids=len(left_out) - left_out.count(None),
            similarity=self.ranked.compares_by(embedded.similarity),
            ranked_by=self.ranked.name(embedded.similarity),
            judged_at_10=_judged_share(task, ranked),
        )

    def record(self, scores: dict[str, RetrievalScore], common: Mapping[str, Any]) -> RetrievalResult:
        """See ``Suite``."""
        return RetrievalResult(
            **common,
            similarity=next(iter(scores.values())).similarity,
            ranked_by=next(iter(scores.values())).ranked_by,
            split=self.split,
            retrieval=scores,
            average=math.fsum(score.ndcg_at_10 for score in scores.values()) / len(scores),
        )

    def line(self, task: RetrievalTask, score: RetrievalScore) -> str:
        """See ``Suite``."""
        low_high = score.intervals.get("ndcg_at_10")
        interval = "" if low_high is None else f" (95% interval {low_high[0]:.2f} to {low_high[1]:.2f})"
        line = f"{task.name}: nDCG@10 {score.ndcg_at_10:.2f}{interval}, recall@100 {score.recall_at_100:.2f} over "
        line += f"{number_of(score.queries, 'query')}, {task.described(self.keep_identical_ids)}"
        if task.without_relevant:
            without = "more query has no relevant document and is", "more queries have no relevant document and are"
            line += f"; {number_of(task.without_relevant, *without)} left out"
        empty = sum(not text for text in task.documents)
        return line + (f"; {number_of(empty, 'document is empty', 'documents are empty')}" if empty else "")

    @classmethod
    def table(cls, results: Mapping[str, RetrievalResult]) -> Table:
        """Lays out measures x 100, and half the interval of nDCG@10: one row per model and data set.

        Where there are several data sets, one more row has the average. Notes below the table compare rows.
        """
        splits = dict.fromkeys(result.split for result in results.values())
        rankers = dict.fromkeys(result.ranked_by for result in results.values())
        rows: list[TableRow] = []
        notes: dict[str, None] = {}
        for label, result in results.items():
            for name, score in result.retrieval.items():
                _, *others = map(Cell, score.measures().values())
                first = Cell(score.ndcg_at_10, suffix=_half(score.intervals.get("ndcg_at_10")))
                rows.append([label, name, first, *others])
                note = f"{name}: {number_of(score.queries, 'query')}, {number_of(score.documents, 'document')}"
                note += f"; {number_of(score.copies, 'copy shares', 'copies share')} a rank" if score.copies else ""
                note += f"; {score.identical_ids:,} that are their query left out" if score.identical_ids else ""
                notes[note] = None
            if len(result.retrieval) > 1:
                rows.append([label, "average", Cell(result.average), *[Cell(None)] * 5])
        for name in dict.fromkeys(name for result in results.values() for name in result.retrieval):
            scores = {label: result.retrieval[name] for label, result in results.items() if name in result.retrieval}
            if note := _judged_note(name, scores):
                notes[note] = None
        for label, result in results.items():
            for name, difference in chain(result.compared.items(), result.compared_first.items()):
                notes[f"{name}, {label} against {difference.than}: {verdict(difference)}"] = None
        headers = ("nDCG@10", "MRR@10", "MAP@10", "R@1", "R@10", "R@100")
        title = f"Retrieval ({', '.join(splits)}; ranked by {', '.join(rankers)}), x 100; "
        title += "R is recall, ± half of the 95% interval over queries"
        return results_table(title, [MODEL, "Data set"], headers, rows, notes, grouped=True)


def _judged_share(task: RetrievalTask, ranked: Sequence[Ranked]) -> float | None:
    if all(level > 0 for levels in task.judged for level in levels.values()):
        return None
    first = [is_judged for one in ranked for is_judged in one.is_judged[:10]]
    return sum(first) / max(1, len(first))


def _judged_note(name: str, scores: Mapping[str, RetrievalScore]) -> str:
    """Warns where the hits of one row were judged less than those of another; empty where they were not."""
    shares = {label: score.judged_at_10 for label, score in scores.items() if score.judged_at_10 is not None}
    if not shares or max(shares.values()) - min(shares.values()) < _UNEVEN:
        return ""
    listed = ", ".join(f"{label} {math.floor(100 * share)}%" for label, share in shares.items())
    return (
        f"{name}: judged of the first 10 hits: {listed}; the others count as not relevant, so a model with fewer "
        "judged hits scores too low (opencse label with an index of each model)"
    )


def _half(ends: Interval | None) -> str:
    return "" if ends is None else f" ±{(ends[1] - ends[0]) / 2:.1f}"
