"""Opens the data that the option ``--dev`` names, as the selector of the encoder to keep."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from pydantic import Field

from opencse.arrays import Floats, Integers
from opencse.documents.questions import text_questions
from opencse.errors import UserError
from opencse.evaluation import ScoredPairs, read_scored_pairs
from opencse.evaluation.embedding import embed_for_search
from opencse.evaluation.models.opening import open_model
from opencse.evaluation.pairs import GivenPairs, given_pairs
from opencse.evaluation.retrieval.data import RetrievalTask, complete_labels, load_retrieval
from opencse.evaluation.retrieval.rankers import rankings
from opencse.evaluation.transfer import Transfer, require_tasks
from opencse.files import is_folder
from opencse.numerals import number_of
from opencse.ranking import Measure
from opencse.records import JsonRecord, read_record, save_json
from opencse.text import sample
from opencse.text.files.lines import require_file
from opencse.text.given import TextSource
from opencse.training.questions import FEWEST, Questions
from opencse.training.selection import (
    GradedPairSelector,
    Selector,
    TrainedTexts,
    TransferSelector,
    doubt_on,
)

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder


@dataclass(eq=False)
class UserQueries(Questions):
    """Queries whose relevant documents are known.

    Attributes:
        task: queries, documents and judgements.
        split: the name of the judgements: ``dev``, ``train`` or ``test``.
        keep_identical_ids: rank a document that is the query, by id and text, also where it is not judged relevant.
    """

    task: RetrievalTask
    split: str = "dev"
    keep_identical_ids: bool = False
    own_words = False  # people asked them
    unknown = "the model was selected by these same queries, so other queries may gain a little less"

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
        return cls(next(iter(tasks.values())), split, keep_identical_ids, metric=measure or Measure())

    @property
    def name(self) -> str:
        """Their name, for the user."""
        return f"the {self.split} queries of {self.task.name}"

    @property
    def source(self) -> str:
        """The name of the data set."""
        return self.task.name

    @property
    def count(self) -> str:
        """How many queries and documents there are."""
        queries = number_of(len(self.task.queries), "query") + doubt_on(len(self.task.queries))
        return f"{queries} among {self.task.described(self.keep_identical_ids)}"

    @property
    def units(self) -> Integers:
        """A group for each query: they are independent."""
        return np.arange(len(self.task.queries), dtype=np.int64)

    def held_out(self) -> list[str]:
        """The queries."""
        return self.task.queries

    def documents(self) -> list[str]:
        """The documents."""
        return self.task.documents

    def forbidden_texts(self) -> list[str]:
        """The queries; the documents are searched in the end, and may be trained on."""
        return [*self.task.queries, *super().forbidden_texts()]

    def without(self, trained: TrainedTexts) -> tuple[Self, list[str]]:
        """Drops the queries that also occur in the training text.

        Raises:
            UserError: where none is left.
        """
        task = self.task
        kept, notes = super().without(trained)
        remaining = [row for row, query in enumerate(task.queries) if query not in trained]
        dropped = len(task.queries) - len(remaining)
        if not dropped:
            return kept, notes
        if not remaining:
            raise UserError(
                f"{task.name}: all {dropped:,} queries are also in the training text, so they cannot select; select by "
                "other queries (--dev), or leave these out of the text"
            )
        note = f"{dropped:,} of {len(task.queries):,} queries are also in the training text and are ignored"
        return replace(kept, task=task.of_queries(remaining)), [f"queries    {note}", *notes]

    def content(self) -> list[object]:
        """A hash of queries, documents and judgements, and the measure."""
        return [str(self.metric), self.task.sha256(), *["identical ids kept"] * self.keep_identical_ids]

    def values(self, encoder: SentenceEncoder) -> Floats:
        """(n,) the measure of each query's ranking of the documents."""
        task, k = self.task, self.metric.k
        embedded = embed_for_search(open_model(encoder), [(task.queries, task.documents)])
        ranked = rankings(task, embedded, k, task.left_out(self.keep_identical_ids))
        return np.array([self.metric.of_ranking(one.levels, one.judged) for one in ranked])


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


QUESTIONS_FILE = "questions.json"
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
        return read_record(cls, folder / QUESTIONS_FILE) if (folder / QUESTIONS_FILE).is_file() else None

    def write(self, folder: Path) -> None:
        """Writes them to the folder of a run."""
        save_json(folder / QUESTIONS_FILE, self.to_dict())

    def opened(self) -> UserQueries:
        """The queries.

        Raises:
            UserError: if the folder of queries cannot be read, or has changed.
        """
        folder = Path(self.folder)
        queries = UserQueries.read(folder, Measure.parse(self.metric), self.keep_identical_ids)
        task = queries.task
        ids = set(self.query_ids)
        selected = task.of_queries([row for row, name in enumerate(task.query_ids) if name in ids])
        if selected.sha256() != self.content:
            raise UserError(f"{folder}: the queries have changed since the run selected by them; put the original back")
        return replace(queries, task=selected)


AUTO, TEXT, SAMPLE, NONE = "auto", "text", "sample", "none"
TOO_SMALL = f"too small to hold a share out and ask {FEWEST} questions about it"
QUERIES, PAIRS, TRANSFER, SELECTOR = "queries", "pairs", Transfer.name, "selector"


@dataclass(frozen=True)
class Dev:
    """What ``--dev`` names, by which the encoder to keep is selected.

    Attributes:
        kind: ``text`` (questions from a held-out share of the text), ``auto`` (the same where the text is large enough,
            else ``sample``; of rows with labels always ``sample``), ``sample`` (the built-in graded pairs), ``pairs``
            (graded pairs), ``queries`` (a folder of queries with relevant documents in BEIR's layout), ``transfer``
            (the mean dev accuracy of the transfer tasks in a folder), ``none`` (keep the last encoder), or
            ``selector``, which is used as it is.
        source: the file, folder, pairs or selector; None where ``kind`` says it all.
        measure: by which answers are scored, nDCG@10 by default; None for graded pairs.
        keep_identical_ids: of queries; see `UserQueries`.
    """

    kind: str
    source: Path | ScoredPairs | Selector | None = None
    measure: Measure | None = None
    keep_identical_ids: bool = False

    @classmethod
    def of(cls, dev: DevChoice, metric: str | None = None, *, keep_identical_ids: bool = False) -> Dev:
        """What a user names with ``dev``; nothing is read.

        Example:
            >>> Dev.of("transfer:senteval").kind, Dev.of("pairs.tsv").source, Dev.of(None).kind
            ('transfer', PosixPath('pairs.tsv'), 'none')

        Args:
            dev: a word, the path of a file or folder, ``transfer:FOLDER``, rows of (score, sentence, sentence), a
                selector, or None; what is named already is returned unchanged.
            metric: see ``measure``.
            keep_identical_ids: rank a document that is the query also where it is not judged relevant.

        Raises:
            UserError: for an unknown metric, ``keep_identical_ids`` without a folder of queries, or other rows.
        """
        if isinstance(dev, Dev):
            return dev
        dev = NONE if dev is None else dev
        is_word = str(dev) in (AUTO, TEXT, SAMPLE, NONE)
        if keep_identical_ids and (is_word or not is_folder(dev)):
            raise UserError(
                "--keep-identical-ids is for a folder of queries with relevant documents (--dev FOLDER); leave it out"
            )
        measure = None if metric is None else Measure.parse(metric)
        if is_word:
            return cls(str(dev), measure=measure)
        if isinstance(dev, Selector):
            return cls(SELECTOR, dev)
        if not isinstance(dev, str | Path):
            return cls(PAIRS, dev if isinstance(dev, ScoredPairs) else given_pairs(dev, "dev"), measure)
        word, _, folder = str(dev).partition(":")
        if isinstance(dev, str) and word == TRANSFER:
            if not folder:
                raise UserError(
                    "--dev transfer needs the folder of the tasks: --dev transfer:FOLDER; "
                    "a folder called transfer is ./transfer"
                )
            return cls(TRANSFER, Path(folder), measure)
        return cls(QUERIES if is_folder(dev) else PAIRS, Path(dev), measure, keep_identical_ids)

    @property
    def asks_text(self) -> bool:
        """Whether the text is asked about itself, if it is large enough."""
        return self.kind in (AUTO, TEXT)

    def require(self) -> None:
        """Refuses a file or folder that does not exist; it is read after the text, which may take long.

        Raises:
            UserError: naming it.
        """
        if isinstance(self.source, Path) and self.kind == TRANSFER:
            require_tasks(self.source)
        elif isinstance(self.source, Path) and self.kind == PAIRS:
            require_file(self.source, "file or folder")

    def without_questions(self, why: str) -> Dev:
        """What selects where none can be asked of the text: the built-in graded pairs.

        Raises:
            UserError: where the user named questions, or a measure of their answers.
        """
        if self.kind == TEXT or self.measure is not None:
            raise UserError(
                f"{why}; select by something else: --dev with graded pairs, or with a folder of queries and documents"
            )
        return replace(self, kind=SAMPLE)

    def queries(self) -> UserQueries:
        """Reads the folder of queries.

        Raises:
            UserError: see `UserQueries.read`.
        """
        return UserQueries.read(Path(str(self.source)), self.measure, self.keep_identical_ids)

    def open(self, text: TextSource) -> Selector | None:
        """Reads what selects the encoder to keep; None keeps the last encoder.

        Args:
            text: what is trained on.

        Raises:
            UserError: for a text too small, a metric without questions, or bad input.

        Example:
            >>> from opencse.text.given import open_texts
            >>> selector = Dev.of("sample").open(open_texts(["One.", "Two."]))
            >>> selector.name, selector.size
            ("the built-in sample's dev pairs", '150 pairs')
        """
        source = self.source
        if self.measure is not None and not (self.asks_text or self.kind == QUERIES):
            raise UserError(f"--metric {self.measure} needs questions (--dev text, or --dev with a folder of queries)")
        if self.kind == NONE:
            return None
        if isinstance(source, Selector):
            return source
        if self.kind == QUERIES:
            return self.queries().guarded()
        if self.asks_text:
            questions = None if text.label else text_questions(text.read(), self.measure)
            if questions is not None:
                return questions.guarded()
            why = "no questions are made of rows with a score or class" if text.label else TOO_SMALL
            return self.without_questions(f"{text.name}: {why}").open(text)
        if isinstance(source, ScoredPairs):
            return GradedPairSelector(f"{number_of(len(source), 'given pair')}, {source.fingerprint()[:8]}", source)
        if source is None:
            return GradedPairSelector("the built-in sample's dev pairs", read_scored_pairs(sample.DEV))
        if self.kind == TRANSFER:
            return TransferSelector.read(source)
        return GradedPairSelector(str(source), read_scored_pairs(source))


DevChoice = str | Path | ScoredPairs | GivenPairs | Selector | Dev | None
"""What a user may name; see `Dev.of`."""
