"""Saves the questions that a run selects by until its hybrid weight is fitted, so that `opencse.finish` can fit it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from pydantic import Field

from opencse import io
from opencse.adapting.holdout import hold_nothing_out
from opencse.adapting.question_sets import QuestionSet
from opencse.adapting.selection_by_questions import Questions
from opencse.adapting.text_questions import TextQuestions
from opencse.adapting.user_queries import UserQueries
from opencse.errors import UserError
from opencse.ranking import Measure
from opencse.records import JsonRecord, read_record, save_json
from opencse.settings import Settings
from opencse.text.readers import Texts

FILE = "questions.json"
"""In the folder of a run of `opencse.adapt`, until the weight of its hybrid search is fitted."""


class SavedSet(Settings):
    """A `QuestionSet` as plain values."""

    kind: str
    label: str
    queries: list[str]
    candidates: list[str]
    answers: list[int]
    units: list[int]


class SavedQuestions(JsonRecord):
    """Held-out questions with their candidates, or the name of a folder of queries.

    Example:
        >>> one = QuestionSet("pairs", "questions", ["Why?"], ["So.", "No."], np.array([0]), np.array([7]))
        >>> saved = SavedQuestions.of(TextQuestions((one,), hold_nothing_out(Texts([("Why?",)], None, ""))))
        >>> saved.opened().sets[0].queries
        ['Why?']

    Attributes:
        metric: scores a ranking.
        sets: of questions from held-out text or pairs; empty for a folder of queries.
        from_pairs: see `TextQuestions`.
        weights: see `TextQuestions`.
        folder: of the user's queries.
        keep_identical_ids: see `UserQueries`.
        query_ids: queries of the folder that are not in the training text.
        content: hash of these queries and their documents.
    """

    metric: str
    sets: list[SavedSet] = Field(default_factory=list)
    from_pairs: bool = False
    weights: list[float] = Field(default_factory=list)
    folder: str | None = None
    keep_identical_ids: bool = False
    query_ids: list[str] = Field(default_factory=list)
    content: str | None = None

    @classmethod
    def of(cls, questions: Questions, folder: Path | None = None) -> SavedQuestions | None:
        """The values of ``questions``; None for a kind that no weight is fitted to.

        Args:
            questions: that select the encoder.
            folder: of the user's queries, if they are from one.
        """
        if isinstance(questions, UserQueries) and folder is not None:
            task = questions.task
            return cls(
                metric=str(questions.metric),
                folder=str(folder.resolve()),
                keep_identical_ids=questions.keep_identical_ids,
                query_ids=task.query_ids,
                content=task.sha256(),
            )
        if not isinstance(questions, TextQuestions):
            return None
        sets = [
            SavedSet(
                kind=one.kind,
                label=one.label,
                queries=one.queries,
                candidates=one.candidates,
                answers=one.answers.tolist(),
                units=one.units.tolist(),
            )
            for one in questions.sets
        ]
        return cls(
            metric=str(questions.metric), sets=sets, from_pairs=questions.from_pairs, weights=[*questions.weights]
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

    def opened(self) -> TextQuestions | UserQueries:
        """The questions.

        Raises:
            UserError: if the folder of queries cannot be read, or has changed.
        """
        if self.folder is not None:
            return self._queries(Path(self.folder))
        sets = tuple(
            QuestionSet(
                one.kind,
                one.label,
                one.queries,
                one.candidates,
                np.array(one.answers, dtype=np.int64),
                np.array(one.units, dtype=np.int64),
            )
            for one in self.sets
        )
        nothing = hold_nothing_out(Texts([], None, "questions"))
        metric = Measure.parse(self.metric)
        return TextQuestions(sets, nothing, metric, from_pairs=self.from_pairs, weights=tuple(self.weights))

    def _queries(self, folder: Path) -> UserQueries:
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
