"""Queries with relevant documents, in BEIR's layout, as questions to choose by."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from opencse.adapting.trained_texts import TrainedTexts
from opencse.arrays import Floats, Integers
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.evaluation.embedding import embed_for_search
from opencse.evaluation.models.opening import open_model
from opencse.evaluation.retrieval.data import RetrievalTask, load_retrieval
from opencse.evaluation.retrieval.rankings import OwnDocuments, rankings
from opencse.io import hash_json
from opencse.ranking import Measure


@dataclass(frozen=True)
class UserQueries:
    """Somebody's queries, whose relevant documents are known.

    Attributes:
        task: queries, documents and judgements.
        by: what a ranking is worth.
        keep_identical_ids: rank a document with the query's own id also where it is not judged relevant.
    """

    task: RetrievalTask
    by: Measure = field(default_factory=Measure)
    keep_identical_ids: bool = False

    @classmethod
    def read(cls, folder: Path, by: Measure | None = None, keep_identical_ids: bool = False) -> UserQueries:
        """The one data set of a folder; judgements called ``dev``, else ``train``, else ``test``.

        Raises:
            UserError: see `load_retrieval`; and for a folder of several data sets.
        """
        split = next((name for name in ("dev", "train", "test") if has_split(folder, name)), "dev")
        tasks = load_retrieval(folder, split=split).tasks
        if len(tasks) != 1:
            raise UserError(f"{folder}: holds {len(tasks)} data sets; name the folder of one to choose by")
        return cls(next(iter(tasks.values())), by or Measure(), keep_identical_ids)

    @property
    def name(self) -> str:
        """What the user calls them."""
        return f"the queries of {self.task.name}"

    @property
    def source(self) -> str:
        """Where they are from."""
        return self.task.name

    @property
    def measure(self) -> str:
        """What a ranking is worth."""
        return str(self.by)

    @property
    def size(self) -> str:
        """What is asked."""
        size = f"{len(self.task.queries):,} queries among {len(self.task.documents):,} documents"
        own = OwnDocuments.of(self.task, self.keep_identical_ids).note()
        return "; ".join([size, *([own] if own else []), *self.task.notes])

    @property
    def units(self) -> Integers:
        """Every query by itself."""
        return np.arange(len(self.task.queries), dtype=np.int64)

    @property
    def left_out(self) -> None:
        """Nothing: the queries are no part of the text."""
        return

    @property
    def unknown(self) -> str:
        """What a choice by these queries cannot tell."""
        return "the gain was chosen by these very queries, so others may gain a little less"

    def held_out(self) -> list[str]:
        """The queries."""
        return self.task.queries

    def asked(self) -> list[str]:
        """The queries; the documents are what is searched, and may be trained on."""
        return self.task.queries

    def without(self, trained: TrainedTexts) -> tuple[UserQueries, list[str]]:
        """The same without the queries that are trained on.

        Raises:
            UserError: where none is left.
        """
        task = self.task
        kept = [row for row, query in enumerate(task.queries) if query not in trained]
        dropped = len(task.queries) - len(kept)
        if not dropped:
            return self, []
        if not kept:
            raise UserError(
                f"{task.name}: all {dropped:,} queries are in the training text, so they cannot choose; choose by "
                "other queries (--dev), or leave these out of the text"
            )
        left = replace(
            task,
            query_ids=[task.query_ids[row] for row in kept],
            queries=[task.queries[row] for row in kept],
            judged=[task.judged[row] for row in kept],
        )
        told = f"{dropped:,} of {len(task.queries):,} queries are in the training text and are not asked"
        return replace(self, task=left), [f"queries    {told}"]

    def fingerprint(self) -> str:
        """A hash of queries, documents and judgements, and the measure."""
        asked = [str(self.by), self.task.sha256()]
        return hash_json([*asked, "identical ids kept"] if self.keep_identical_ids else asked)

    def values(self, encoder: SentenceEncoder) -> Floats:
        """What each query's ranking of the documents is worth."""
        task, k = self.task, self.by.k
        embedded = embed_for_search(open_model(encoder), [(task.queries, task.documents)])
        ranked = rankings(task, embedded, k, OwnDocuments.of(task, self.keep_identical_ids))
        return np.array([self.by.of_ranking(one.found, one.judged) for one in ranked])

    def parts(self, values: Floats) -> dict[str, float]:
        """None: there is one kind of query."""
        del values
        return {}


def has_split(folder: Path, split: str) -> bool:
    """Whether a data set has judgements of that name."""
    return any((folder / "qrels").glob(f"{split}.tsv*"))


def require_split(folder: Path, split: str, why: str) -> None:
    """Refuses a data set without such judgements, saying why no others will do.

    Raises:
        UserError: in one line.
    """
    if not has_split(folder, split):
        raise UserError(
            f"{folder}: no judgements called {split} (qrels/{split}.tsv), and {why}; choose by other queries"
        )
