"""Scores BM25 and hybrid search next to the vectors of models, and compares the rows query by query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from opencse.evaluation.embedding import EmbeddingModel, Searching
from opencse.evaluation.once import remembering
from opencse.evaluation.retrieval.data import RetrievalData
from opencse.evaluation.retrieval.rankers import ByBoth, ByKeywords, TaskKeywords
from opencse.evaluation.retrieval.reranked_rows import SecondRows
from opencse.evaluation.retrieval.score import Retrieval, RetrievalResult
from opencse.evaluation.suite import Evaluation
from opencse.modules.similarity import HybridWeight
from opencse.progress import Say
from opencse.search.hybrid import weight_of_model
from opencse.search.stems import AUTO

BM25 = "BM25"
R = TypeVar("R")


@dataclass(frozen=True)
class KeywordRows:
    """Which rows are added to a table of retrieval scores.

    Attributes:
        hybrid: also a row of vectors and BM25 together for each model.
        weight: of the vectors in it; None: the weight saved with the model, or else that of `weight_of_model`.
        language: whose word stems BM25 compares; see `opencse.search.building.BuildSettings`.
    """

    hybrid: bool = False
    weight: float | None = None
    language: str = AUTO

    def weight_of(self, model: EmbeddingModel, language: str | None) -> HybridWeight:
        """The weight of a model's vectors on documents of a language."""
        if self.weight is not None:
            return HybridWeight(self.weight, "as requested")
        searching = model.searching or Searching(model.encode, model.encode)
        saved = model.hybrid_weight
        return saved or weight_of_model(searching.queries, searching.documents, model.similarity, language)


def rows_with_keywords(
    models: Iterable[EmbeddingModel],
    suite: Retrieval,
    data: RetrievalData,
    extra: KeywordRows,
    progress: Say,
    second: SecondRows | None = None,
) -> dict[str, RetrievalResult]:
    """Scores BM25 once, and each model's vectors and, on request, both together.

    A row of vectors is compared with BM25, a row of both with the better of its two parts on that data set.

    Args:
        models: to score; a text is encoded once for both rows of a model.
        suite: how tasks are scored.
        data: the tasks.
        extra: the rows to add.
        progress: called with one line at each step.
        second: adds a row with a second stage to each of these rows; None: no such rows.

    Returns:
        The records by label: ``BM25``, ``MODEL``, ``MODEL + BM25``, and each of these with ``+ CROSS-ENCODER``.
    """
    keywords = TaskKeywords(extra.language)
    nothing = EmbeddingModel(BM25, lambda texts: np.empty((len(texts), 0)))
    by_words = replace(suite, ranker=ByKeywords(keywords))
    words = _record(by_words.evaluate(nothing, data, progress))
    rows = {BM25: words.model_copy(update={"model": None})}
    if second is not None:
        rows |= second.of(BM25, rows[BM25], by_words, nothing, data)
    for model in models:
        opened = remembering(model) if extra.hybrid or second is not None else model
        vectors = _record(suite.evaluate(opened, data, progress))
        rows[model.name] = vectors.compared_with(dict.fromkeys(data.tasks, (BM25, words)))
        if second is not None:
            rows |= second.of(model.name, vectors, suite, opened, data)
        if not extra.hybrid:
            continue
        languages = {keywords.of(task).language for task in data.tasks.values()}
        weight = extra.weight_of(opened, languages.pop() if len(languages) == 1 else None)
        progress(f"{model.name} + BM25: weight of the vectors {weight}")
        by_both = replace(suite, ranker=ByBoth(weight.value, keywords, model.split))
        both = _record(by_both.evaluate(opened, data, progress))
        better = {name: better_row(name, (BM25, words), (model.name, vectors)) for name in data.tasks}
        rows[f"{model.name} + BM25"] = both.compared_with(better)
        if second is not None:
            rows |= second.of(f"{model.name} + BM25", both, by_both, opened, data)
    return rows


def compared_with_first(records: Mapping[str, R]) -> dict[str, R | RetrievalResult]:
    """The records with the differences of each model's rows from those of the first model, query by query.

    Args:
        records: of one suite and the same data, by label: a model's name, and what is added to its row. Retrieval
            results alone are compared.
    """
    compared: dict[str, R | RetrievalResult] = {}
    firsts: dict[str, tuple[str, RetrievalResult]] = {}
    for label, record in records.items():
        compared[label] = record
        if isinstance(record, RetrievalResult) and record.model:
            first = firsts.setdefault(label.removeprefix(record.model), (label, record))
            if first[0] != label:
                others, where = (
                    dict.fromkeys(record.retrieval, first),
                    "compared_first" if record.compared else "compared",
                )
                compared[label] = record.compared_with(others, where)
    return compared


def _record(evaluation: Evaluation[RetrievalResult]) -> RetrievalResult:
    return evaluation.record


def better_row(
    task: str, one: tuple[str, RetrievalResult], other: tuple[str, RetrievalResult]
) -> tuple[str, RetrievalResult]:
    """The row with the higher nDCG@10 on a task, with its label."""
    return other if other[1].retrieval[task].ndcg_at_10 > one[1].retrieval[task].ndcg_at_10 else one
