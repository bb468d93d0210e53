"""Names the queries that a run selects by until its hybrid weight is fitted, so that `opencse.finish` can fit it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from opencse import io
from opencse.adapting.user_queries import UserQueries
from opencse.errors import UserError
from opencse.ranking import Measure
from opencse.records import JsonRecord, read_record, save_json

FILE = "questions.json"
"""In the folder of a run of `opencse.adapt`, until the weight of its hybrid search is fitted."""


class SavedQuestions(JsonRecord):
    """The name of a folder of queries, and which of them select.

    Attributes:
        metric: scores a ranking.
        folder: of the user's queries.
        keep_identical_ids: see `UserQueries`.
        query_ids: queries of the folder that are not in the training text.
        content: hash of these queries and their documents.
    """

    metric: str
    folder: str
    keep_identical_ids: bool = False
    query_ids: list[str] = Field(default_factory=list)
    content: str

    @classmethod
    def of(cls, queries: UserQueries, folder: Path) -> SavedQuestions:
        """Names the ``queries`` of a folder."""
        task = queries.task
        return cls(
            metric=str(queries.metric),
            folder=str(folder.resolve()),
            keep_identical_ids=queries.keep_identical_ids,
            query_ids=task.query_ids,
            content=task.sha256(),
        )

    @classmethod
    def read(cls, folder: Path) -> SavedQuestions | None:
        """The questions in the folder of a run; None if there are none.

        Raises:
            UserError: for a file of something else.
        """
        return read_record(cls, folder / FILE) if (folder / FILE).is_file() else None

    def write(self, folder: Path) -> None:
        """Writes them to the folder of a run."""
        save_json(folder / FILE, self.to_dict())

    def opened(self) -> UserQueries:
        """The queries.

        Raises:
            UserError: if the folder of queries cannot be read, or has changed.
        """
        folder = Path(self.folder)
        queries = UserQueries.read(folder, Measure.parse(self.metric), self.keep_identical_ids)
        task = queries.task
        rows = _rows_of(task.query_ids, self.query_ids)
        selected = replace(
            task,
            query_ids=[task.query_ids[row] for row in rows],
            queries=[task.queries[row] for row in rows],
            judged=[task.judged[row] for row in rows],
        )
        if selected.sha256() != self.content:
            raise UserError(f"{folder}: the queries have changed since the run selected by them; put the original back")
        return replace(queries, task=selected)


def remove_questions(folder: Path) -> None:
    """Deletes the questions from the folder of a run whose weight is fitted."""
    io.remove(folder / FILE)


def _rows_of(names: Sequence[str], selected: Sequence[str]) -> list[int]:
    selection = set(selected)
    return [row for row, name in enumerate(names) if name in selection]
