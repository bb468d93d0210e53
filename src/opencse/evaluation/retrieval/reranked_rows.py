"""Scores rankings whose first documents a cross-encoder ranks again, next to the rankings without it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from opencse.evaluation.embedding import Embedded, EmbeddingModel
from opencse.evaluation.once import remembering
from opencse.evaluation.retrieval.data import RetrievalData, RetrievalTask
from opencse.evaluation.retrieval.rankers import Ranker
from opencse.evaluation.retrieval.score import Retrieval, RetrievalResult
from opencse.modules.similarity import Similarity
from opencse.progress import Counted, Progress
from opencse.reranking.second_stage import SecondStage


@dataclass(frozen=True)
class Reranked:
    """Ranks by a first ranker, and the first documents of its ranking again by a cross-encoder.

    A document that is left out (see `RetrievalTask.left_out`) is not counted among the first.

    Attributes:
        first_stage: ranks all documents.
        stage: the cross-encoder, and the number of documents that it ranks again.
        keep_identical_ids: see `Retrieval`.
        progress: shows the progress.
    """

    first_stage: Ranker
    stage: SecondStage
    keep_identical_ids: bool
    progress: Progress

    def texts(self, task: RetrievalTask) -> Sequence[str]:
        """See `Ranker`."""
        return self.first_stage.texts(task)

    def compares_by(self, similarity: Similarity) -> Similarity | None:
        """See `Ranker`."""
        return self.first_stage.compares_by(similarity)

    def name(self, similarity: Similarity) -> str:
        """See `Ranker`."""
        return f"{self.first_stage.name(similarity)}, first {self.stage.depth} by {_short(self.stage.model.name)}"

    def first(self, task: RetrievalTask, embedded: Embedded, k: int) -> Iterator[list[int]]:
        """See `Ranker`."""
        left_out = task.left_out(self.keep_identical_ids)
        rankings = [
            [position for position in ranked if position != without]
            for ranked, without in zip(
                self.first_stage.first(task, embedded, max(k, self.stage.depth + 1)), left_out, strict=True
            )
        ]
        texts = [[task.documents[position] for position in ranked[: self.stage.depth]] for ranked in rankings]
        orders = self.stage.reranked(task.queries, texts, Counted(self.progress, f"{task.name}: re-ranking"))
        for ranked, order in zip(rankings, orders, strict=True):
            yield [*(ranked[position] for position, _ in order), *ranked[self.stage.depth :]][:k]


@dataclass(frozen=True)
class SecondRows:
    """Adds to each row of a table of retrieval scores one with a cross-encoder as second stage.

    Attributes:
        stage: the cross-encoder, and the number of documents that it ranks again.
        progress: shows the progress.
    """

    stage: SecondStage
    progress: Progress

    def of(
        self, label: str, row: RetrievalResult, suite: Retrieval, model: EmbeddingModel, data: RetrievalData
    ) -> dict[str, RetrievalResult]:
        """The row of ``suite``'s ranking with the second stage, compared with the row without it.

        Args:
            label: of the row without it.
            row: that row.
            suite: how it was ranked.
            model: by whose vectors.
            data: the tasks.
        """
        ranker = Reranked(suite.ranked, self.stage, suite.keep_identical_ids, self.progress)
        record: RetrievalResult = replace(suite, ranker=ranker).evaluate(model, data, self.progress.say).record
        record = record.model_copy(update={"model": row.model})
        return {
            f"{label} + {_short(self.stage.model.name)}": record.compared_with(dict.fromkeys(data.tasks, (label, row)))
        }


def rows_with_reranking(
    models: Iterable[EmbeddingModel], suite: Retrieval, data: RetrievalData, second: SecondRows
) -> dict[str, RetrievalResult]:
    """Scores each model's vectors, alone and with a second stage; a text is encoded once for both.

    Returns:
        The records by label: ``MODEL``, ``MODEL + CROSS-ENCODER``.
    """
    rows: dict[str, RetrievalResult] = {}
    for model in models:
        opened = remembering(model)
        rows[model.name] = suite.evaluate(opened, data, second.progress.say).record
        rows |= second.of(model.name, rows[model.name], suite, opened, data)
    return rows


def _short(name: str) -> str:
    """The last part of a folder or Hub id."""
    return Path(name).name or name
