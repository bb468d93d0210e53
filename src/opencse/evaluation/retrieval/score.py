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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from opencse.evaluation.embedding import Embedded, EmbeddingModel, embed_for_search
from opencse.evaluation.record import AVERAGE, Compared, EvaluationRecord, Score
from opencse.evaluation.retrieval.data import RetrievalData, RetrievalTask, load_retrieval
from opencse.evaluation.retrieval.rankers import ByVectors, Ranked, Ranker, rankings
from opencse.evaluation.suite import Options, Suite
from opencse.evaluation.table import MODEL, Cell, TableRow, results_table
from opencse.modules.similarity import Similarity
from opencse.numerals import number_of
from opencse.ranking import average_precision, ndcg, recall, reciprocal_rank
from opencse.statistics.difference import Interval, verdict
from opencse.statistics.queries import intervals_of_means, paired_queries

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
MAIN = "ndcg_at_10"


@dataclass(frozen=True)
class Retrieval(Suite[RetrievalTask]):
    """Scores each data set by measures that are means over its queries, x 100.

    ``ndcg_at_10`` is what BEIR and MTEB report, ``map_at_10`` trec_eval's ``map_cut_10``; see `opencse.ranking`. Each
    has a 95% interval, Student's t over the queries; none for a single query, or where all have the same value. The
    extras of ``ndcg_at_10`` are ``without_relevant`` (judged queries left out, since no document is relevant to
    them), ``documents``, ``copies`` (of these, documents with the text of another one; they share its rank),
    ``ranked_by`` (the scores that ranked them, with their weights), ``similarity`` (the function that vectors were
    compared by, if any were), ``identical_ids`` (documents that are a query, by id and text, and were left out of its
    ranking), ``by_query`` (nDCG@10 x 100 of each query by its id, for paired tests), and ``judged_at_10``: the share
    of the first 10 documents that have a judgement, unless only relevant documents are judged. The others count as
    not relevant, so a model whose hits nobody judged scores too low.

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

    def score(self, name: str, task: RetrievalTask, embedded: Embedded, device: str = "cpu") -> list[Score]:
        """See ``Suite``."""
        del device
        left_out = task.left_out(self.keep_identical_ids)
        ranked = list(rankings(task, embedded, DEPTH, left_out, self.ranked))
        values = {one: 100 * np.array([measure(query) for query in ranked]) for one, measure in MEASURES.items()}
        intervals = intervals_of_means(values)
        extras = {
            "without_relevant": task.without_relevant,
            "documents": len(task.documents) + len(task.copies),
            "copies": len(task.copies),
            "identical_ids": len(left_out) - left_out.count(None),
            "similarity": self.ranked.compares_by(embedded.similarity),
            "ranked_by": self.ranked.name(embedded.similarity),
            "judged_at_10": _judged_share(task, ranked),
            "by_query": dict(zip(task.query_ids, values["ndcg_at_10"].tolist(), strict=True)),
        }
        return [
            Score(
                suite=self.name,
                task=name,
                measure=measure,
                value=math.fsum(of_each) / len(of_each),
                n=len(of_each),
                interval=intervals[measure],
                extras=extras if measure == MAIN else {},
            )
            for measure, of_each in values.items()
        ]

    def averages(self, scores: Mapping[str, list[Score]]) -> list[Score]:
        """The plain mean of nDCG@10 over these data sets; compares only over the same ones."""
        return [self.mean([several[0] for several in scores.values()])]

    def settings(self, scores: Mapping[str, list[Score]]) -> dict[str, Any]:
        """The name of the judgements."""
        return {"split": self.split}

    def line(self, task: RetrievalTask, scores: Sequence[Score]) -> str:
        """See ``Suite``."""
        first, low_high = scores[0], scores[0].interval
        interval = "" if low_high is None else f" (95% interval {low_high[0]:.2f} to {low_high[1]:.2f})"
        line = f"{task.name}: nDCG@10 {first.value:.2f}{interval}, recall@100 {scores[-1].value:.2f} over "
        line += f"{number_of(first.n, 'query')}, {task.described(self.keep_identical_ids)}"
        if task.without_relevant:
            without = "more query has no relevant document and is", "more queries have no relevant document and are"
            line += f"; {number_of(task.without_relevant, *without)} left out"
        empty = sum(not text for text in task.documents)
        return line + (f"; {number_of(empty, 'document is empty', 'documents are empty')}" if empty else "")

    @classmethod
    def table(cls, results: Mapping[str, EvaluationRecord]) -> Table:
        """Lays out measures x 100, and half the interval of nDCG@10: one row per model and data set.

        Where there are several data sets, one more row has the average. Notes below the table compare rows.
        """
        splits = dict.fromkeys(record.settings["split"] for record in results.values())
        rows: list[TableRow] = []
        notes: dict[str, None] = {}
        rankers: dict[str, None] = {}
        shares: dict[str, dict[str, float]] = {}
        for label, record in results.items():
            for name in record.tasks:
                first, *others = (Cell.of(record, name, measure) for measure in MEASURES)
                score = record[name, MAIN]
                rows.append([label, name, replace(first, suffix=_half(score.interval)), *others])
                extras = score.extras
                note = f"{name}: {number_of(score.n, 'query')}, {number_of(extras['documents'], 'document')}"
                note += (
                    f"; {number_of(extras['copies'], 'copy shares', 'copies share')} a rank" if extras["copies"] else ""
                )
                note += (
                    f"; {extras['identical_ids']:,} that are their query left out" if extras["identical_ids"] else ""
                )
                notes[note] = None
                rankers[extras["ranked_by"]] = None
                if extras["judged_at_10"] is not None:
                    shares.setdefault(name, {})[label] = extras["judged_at_10"]
            if len(record.tasks) > 1:
                rows.append([label, "average", Cell.of(record, AVERAGE, MAIN), *[Cell(None)] * 5])
        notes |= dict.fromkeys(filter(None, (_judged_note(name, one) for name, one in shares.items())))
        for label, record in results.items():
            for difference in record.compared:
                notes[f"{difference.task}, {label} against {difference.than}: {verdict(difference)}"] = None
        headers = ("nDCG@10", "MRR@10", "MAP@10", "R@1", "R@10", "R@100")
        title = f"Retrieval ({', '.join(splits)}; ranked by {', '.join(rankers)}), x 100; "
        title += "R is recall, ± half of the 95% interval over queries"
        return results_table(title, [MODEL, "Data set"], headers, rows, notes, grouped=True)


def compared_with(record: EvaluationRecord, others: Mapping[str, tuple[str, EvaluationRecord]]) -> EvaluationRecord:
    """The record with its differences of nDCG@10 from other rows, query by query, after those that it has.

    Args:
        record: of a row.
        others: by data set, the label of another row and its record.
    """
    compared = [*record.compared]
    for name, (label, other) in others.items():
        ours, theirs = (np.array([*one[name, MAIN].extras["by_query"].values()]) for one in (record, other))
        compared.append(Compared(**paired_queries(ours, theirs).model_dump(), task=name, than=label))
    return record.model_copy(update={"compared": compared})


def _judged_share(task: RetrievalTask, ranked: Sequence[Ranked]) -> float | None:
    if all(level > 0 for levels in task.judged for level in levels.values()):
        return None
    first = [is_judged for one in ranked for is_judged in one.is_judged[:10]]
    return sum(first) / max(1, len(first))


def _judged_note(name: str, shares: Mapping[str, float]) -> str:
    """Warns where the hits of one row were judged less than the hits of another row; empty where they were not."""
    if max(shares.values()) - min(shares.values()) < _UNEVEN:
        return ""
    listed = ", ".join(f"{label} {math.floor(100 * share)}%" for label, share in shares.items())
    return (
        f"{name}: judged of the first 10 hits: {listed}; the others count as not relevant, so a model with fewer "
        "judged hits scores too low (opencse label with an index of each model)"
    )


def _half(ends: Interval | None) -> str:
    return "" if ends is None else f" ±{(ends[1] - ends[0]) / 2:.1f}"
