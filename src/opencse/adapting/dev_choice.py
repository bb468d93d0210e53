"""Opens the data that the option ``--dev`` names, as the selector of the encoder to keep."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from opencse.adapting.guard import Guard
from opencse.adapting.selection import Selector
from opencse.adapting.selection_by_graded_pairs import GradedPairSelector
from opencse.adapting.selection_by_questions import Questions, QuestionSelector
from opencse.adapting.selection_by_transfer import TransferSelector, is_transfer, transfer_folder
from opencse.adapting.similarity_guard import SimilarityGuard
from opencse.adapting.text_questions import FEWEST, text_questions
from opencse.adapting.trained_texts import TrainedTexts
from opencse.adapting.user_queries import UserQueries
from opencse.errors import UserError
from opencse.evaluation import ScoredPairs, read_scored_pairs
from opencse.evaluation.pairs import GivenPairs, given_pairs
from opencse.evaluation.transfer.data import require_tasks
from opencse.io import is_folder
from opencse.numerals import number_of
from opencse.ranking import Measure
from opencse.text import sample
from opencse.text.files.lines import require_file
from opencse.text.given import TextSource, has_labels

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
        if str(dev) == TEXT and has_labels(text):
            raise UserError(
                f"{text.name}: no questions are made of rows with a score or class; select by something else: --dev "
                "with graded pairs, or with a folder of queries and documents"
            )
        questions = None if has_labels(text) else text_questions(text.read(), measure)
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


def graded_pairs(dev: DevChoice) -> ScoredPairs | None:
    """Opens graded pairs for a report: the pairs of ``dev`` if it has any, else the built-in ones.

    Returns:
        None where ``dev`` is none: then nothing selects, and the report shows no pairs either.
    """
    if dev is None or str(dev) == NONE:
        return None
    if isinstance(dev, ScoredPairs):
        return dev
    if isinstance(dev, Selector):
        return read_scored_pairs(sample.DEV)
    if not isinstance(dev, str | Path):
        return given_pairs(dev, "dev")
    built_in = str(dev) in (AUTO, TEXT, SAMPLE) or is_folder(dev) or is_transfer(dev)
    return read_scored_pairs(sample.DEV if built_in else Path(dev))


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
