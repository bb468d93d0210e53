"""Opens the data that the option ``--dev`` names, as the selector of the encoder to keep."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from opencse import files
from opencse.arrays import Floats, Integers
from opencse.documents.questions import text_questions
from opencse.errors import UserError
from opencse.evaluation import ScoredPairs, read_scored_pairs
from opencse.evaluation.embedding import embed_for_search
from opencse.evaluation.models.opening import open_model
from opencse.evaluation.pairs import GivenPairs, given_pairs
from opencse.evaluation.retrieval.data import RetrievalTask, complete_labels, load_retrieval
from opencse.evaluation.retrieval.rankers import rankings
from opencse.evaluation.transfer import require_tasks
from opencse.files import hash_json, is_folder
from opencse.numerals import number_of
from opencse.ranking import Measure
from opencse.records import JsonRecord, read_record, save_json
from opencse.text import sample
from opencse.text.files.lines import require_file
from opencse.text.given import TextSource
from opencse.training.questions import FEWEST, Guard, Questions, QuestionSelector, SimilarityGuard
from opencse.training.selection import (
    GradedPairSelector,
    Selector,
    TrainedTexts,
    TransferSelector,
    is_transfer,
    transfer_folder,
)

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
    # The queries are no part of the text, and people asked them.
    left_out: ClassVar[None] = None
    own_words: ClassVar[bool] = False
    unknown: ClassVar[str] = "the model was selected by these same queries, so other queries may gain a little less"

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
        rows = [row for row, name in enumerate(task.query_ids) if name in ids]
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
    files.remove(folder / QUESTIONS_FILE)


DevChoice = str | Path | ScoredPairs | GivenPairs | Selector | None
"""The data that the encoder to keep is selected by; see `load_selector`."""
AUTO, TEXT, SAMPLE, NONE = "auto", "text", "sample", "none"


def load_selector(
    dev: DevChoice, text: TextSource, metric: str | None = None, *, keep_identical_ids: bool = False
) -> Selector | None:
    """Opens the data that the encoder to keep is selected by; None keeps the last encoder.

    Args:
        dev: ``text`` (questions from a held-out share of the text), ``auto`` (the same where the text is large enough,
            else ``sample``; of rows with labels always ``sample``), ``sample`` (the built-in graded pairs), a file of
            graded pairs, a folder in BEIR's layout (queries with relevant documents), ``transfer:FOLDER`` (the mean dev
            accuracy of the transfer tasks there), rows of (score, sentence, sentence), ``none`` or None; or a selector,
            which is returned unchanged.
        text: what is trained on.
        metric: by which answers are scored, ``ndcg@10`` by default; not for graded pairs.
        keep_identical_ids: of a folder of queries: rank a document that is the query also where it is not judged
            relevant.

    Raises:
        UserError: for a text too small, a metric without questions, ``keep_identical_ids`` without a folder of queries,
            or bad input.

    Example:
        >>> from opencse.text.given import open_texts
        >>> selector = load_selector("sample", open_texts(["One.", "Two."]))
        >>> selector.name, selector.size
        ("the built-in sample's dev pairs", '150 pairs')
    """
    if keep_identical_ids and not is_folder(dev):
        raise UserError(
            "--keep-identical-ids is for a folder of queries with relevant documents (--dev FOLDER); leave it out"
        )
    measure = None if metric is None else Measure.parse(metric)
    if dev is None or str(dev) == NONE:
        return None
    if isinstance(dev, Selector):
        return dev
    if not isinstance(dev, str | Path):
        pairs = dev if isinstance(dev, ScoredPairs) else given_pairs(dev, "dev")
        return GradedPairSelector(f"{number_of(len(pairs), 'given pair')}, {pairs.fingerprint()[:8]}", pairs)
    if str(dev) in (AUTO, TEXT):
        if str(dev) == TEXT and text.label:
            raise UserError(
                f"{text.name}: no questions are made of rows with a score or class; select by something else: --dev "
                "with graded pairs, or with a folder of queries and documents"
            )
        questions = None if text.label else text_questions(text.read(), measure)
        if questions is not None:
            return guarded(questions)
        if str(dev) == TEXT:
            raise UserError(
                f"{text.name}: too small to hold a share out and ask {FEWEST} questions about it; select by something "
                "else: --dev with graded pairs, or with a folder of queries and documents"
            )
    elif is_folder(dev):
        return guarded(UserQueries.read(Path(dev), measure, keep_identical_ids))
    if measure is not None:
        raise UserError(
            f"--metric {metric} needs questions (--dev text, or --dev with a folder of queries), not graded pairs"
        )
    if is_transfer(dev):
        folder = transfer_folder(str(dev))
        if folder is None:
            raise UserError("--dev transfer needs the folder of the tasks: --dev transfer:FOLDER")
        return TransferSelector.read(folder)
    if str(dev) in (AUTO, SAMPLE):
        return GradedPairSelector("the built-in sample's dev pairs", read_scored_pairs(sample.DEV))
    return GradedPairSelector(str(dev), read_scored_pairs(Path(dev)))


def dev_path(dev: DevChoice) -> object:
    """The file or folder that ``dev`` names, or the data itself; None for a word such as ``auto``.

    Example:
        >>> dev_path("transfer:senteval"), dev_path("pairs.tsv"), dev_path("auto")
        (PosixPath('senteval'), 'pairs.tsv', None)
    """
    if isinstance(dev, str) and is_transfer(dev):
        return transfer_folder(dev)
    return None if isinstance(dev, str) and dev in (AUTO, TEXT, SAMPLE, NONE) else dev


def require_dev(dev: DevChoice) -> None:
    """Refuses a file or folder that does not exist; it is read after the text, which may take long.

    Raises:
        UserError: naming it.
    """
    path = dev_path(dev)
    if not isinstance(path, str | Path) or is_folder(path):
        return
    if is_transfer(dev):
        require_tasks(path)
    else:
        require_file(Path(path))


def guarded(questions: Questions) -> QuestionSelector:
    """Selects by ``questions``, with guards against forgetting: general English ones, and of the text's language."""
    return QuestionSelector(questions, Guard.built_in(), SimilarityGuard.of(questions.held_out()))


def without_trained(selector: Selector, rows: Iterable[tuple[str, ...]]) -> tuple[Selector, list[str]]:
    """Drops the questions of a selector that also occur in the training text.

    Args:
        selector: selects the encoder to keep.
        rows: all rows of the training text.

    Returns:
        The selector without these questions, and lines for the user that say how many they are.

    Raises:
        UserError: where nothing is left to select by.
    """
    texts = [*selector.forbidden_texts()]
    return selector.without(TrainedTexts.among(rows, texts)) if texts else (selector, [])
