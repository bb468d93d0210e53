"""Questions to select by from a folder of the user's queries with their relevant documents (BEIR's layout)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from opencse.adapting.trained_texts import TrainedTexts
from opencse.arrays import Floats, Integers
from opencse.errors import UserError
from opencse.evaluation.embedding import embed_for_search
from opencse.evaluation.models.opening import open_model
from opencse.evaluation.retrieval.data import RetrievalTask, complete_labels, load_retrieval
from opencse.evaluation.retrieval.rankings import rankings
from opencse.io import hash_json
from opencse.numerals import number_of
from opencse.ranking import Measure

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder


@dataclass(frozen=True)
class UserQueries:
    """Queries whose relevant documents are known.

    Attributes:
        task: queries, documents and judgements.
        metric: scores a ranking.
        keep_identical_ids: rank a document that is the query, by id and text, also where it is not judged relevant.
    """

    task: RetrievalTask
    metric: Measure = field(default_factory=Measure)
    keep_identical_ids: bool = False

    @classmethod
    def read(cls, folder: Path, measure: Measure | None = None, keep_identical_ids: bool = False) -> UserQueries:
        """Opens the data set of a folder; judgements called ``dev``, else ``train``, else ``test``.

        Raises:
            UserError: see `load_retrieval`; and for a folder of several data sets.
        """
        complete_labels(folder)
        split = next((name for name in ("dev", "train", "test") if has_split(folder, name)), "dev")
        tasks = load_retrieval(folder, split=split).tasks
        if len(tasks) != 1:
            raise UserError(f"{folder}: holds {len(tasks)} data sets; name the folder of one to select by")
        return cls(next(iter(tasks.values())), measure or Measure(), keep_identical_ids)

    @property
    def name(self) -> str:
        """Their name, for the user."""
        return f"the queries of {self.task.name}"

    @property
    def source(self) -> str:
        """The name of the data set."""
        return self.task.name

    @property
    def measure(self) -> str:
        """The measure that scores a ranking."""
        return str(self.metric)

    @property
    def size(self) -> str:
        """How many queries and documents there are."""
        return f"{number_of(len(self.task.queries), 'query')} among {self.task.described(self.keep_identical_ids)}"

    @property
    def units(self) -> Integers:
        """A group for each query: they are independent."""
        return np.arange(len(self.task.queries), dtype=np.int64)

    @property
    def kinds(self) -> Integers:
        """One kind."""
        return np.zeros(len(self.task.queries), dtype=np.int64)

    @property
    def left_out(self) -> None:
        """Nothing: the queries are no part of the text."""
        return

    @property
    def own_words(self) -> bool:
        """False: people asked them."""
        return False

    @property
    def unknown(self) -> str:
        """What a selection by these queries cannot show."""
        return "the model was selected by these same queries, so other queries may gain a little less"

    def held_out(self) -> list[str]:
        """The queries."""
        return self.task.queries

    def forbidden_texts(self) -> list[str]:
        """The queries; the documents are searched in the end, and may be trained on."""
        return self.task.queries

    def without(self, trained: TrainedTexts) -> tuple[UserQueries, list[str]]:
        """Drops the queries that also occur in the training text.

        Raises:
            UserError: where none is left.
        """
        task = self.task
        remaining = [row for row, query in enumerate(task.queries) if query not in trained]
        dropped = len(task.queries) - len(remaining)
        if not dropped:
            return self, []
        if not remaining:
            raise UserError(
                f"{task.name}: all {dropped:,} queries are also in the training text, so they cannot select; select by "
                "other queries (--dev), or leave these out of the text"
            )
        note = f"{dropped:,} of {len(task.queries):,} queries are also in the training text and are ignored"
        return replace(self, task=task.of_queries(remaining)), [f"queries    {note}"]

    def fingerprint(self) -> str:
        """A hash of queries, documents and judgements, and the measure."""
        parts = [str(self.metric), self.task.sha256()]
        return hash_json([*parts, "identical ids kept"] if self.keep_identical_ids else parts)

    def values(self, encoder: SentenceEncoder) -> Floats:
        """(n,) the measure of each query's ranking of the documents."""
        task, k = self.task, self.metric.k
        embedded = embed_for_search(open_model(encoder), [(task.queries, task.documents)])
        ranked = rankings(task, embedded, k, task.left_out(self.keep_identical_ids))
        return np.array([self.metric.of_ranking(one.levels, one.judged) for one in ranked])

    def parts(self, values: Floats) -> dict[str, float]:
        """None: there is one kind of query."""
        del values
        return {}


def has_split(folder: Path, split: str) -> bool:
    """Whether a data set has judgements called ``split``."""
    return any((folder / "qrels").glob(f"{split}.tsv*"))


def require_split(folder: Path, split: str, why: str) -> None:
    """Refuses a data set without judgements called ``split``.

    Raises:
        UserError: in one line.
    """
    if not has_split(folder, split):
        raise UserError(
            f"{folder}: no judgements called {split} (qrels/{split}.tsv), and {why}; select by other queries"
        )
