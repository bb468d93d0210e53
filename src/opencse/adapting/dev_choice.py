"""From what ``--dev`` says to whoever chooses."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from opencse.adapting.guard import Guard
from opencse.adapting.selection import Selector
from opencse.adapting.selection_by_graded_pairs import GradedPairSelector
from opencse.adapting.selection_by_questions import Questions, QuestionSelector
from opencse.adapting.text_questions import FEWEST, own_text
from opencse.adapting.trained_texts import TrainedTexts
from opencse.adapting.user_queries import UserQueries
from opencse.errors import UserError
from opencse.evaluation import ScoredPairs, read_scored_pairs
from opencse.evaluation.pairs import GivenPairs, given_pairs
from opencse.io import is_folder
from opencse.ranking import Measure
from opencse.text import sample
from opencse.text.given import TextSource

DevChoice = str | Path | ScoredPairs | GivenPairs | Selector | None
"""What a run chooses by; see `load_selector`."""
AUTO, TEXT, SAMPLE, NONE = "auto", "text", "sample", "none"


def load_selector(
    dev: DevChoice, text: TextSource, metric: str | None = None, *, keep_identical_ids: bool = False
) -> Selector | None:
    """Whoever chooses among the encoders of a run; None keeps the last.

    Args:
        dev: ``text`` (questions from a held-out share of the text), ``auto`` (that where the text is large enough, else
            ``sample``), ``sample`` (the built-in graded pairs), a file of graded pairs, a folder in BEIR's layout
            (queries with relevant documents), (score, sentence, sentence) each, ``none`` or None; or whoever chooses,
            made before.
        text: what is trained on.
        metric: by which answers are judged, ``ndcg@10`` by default; not for graded pairs.
        keep_identical_ids: of a folder of queries: rank a document with the query's own id also where it is not judged
            relevant.

    Raises:
        UserError: for a text too small, a metric without questions, ``keep_identical_ids`` without a folder of queries,
            or bad input.
    """
    if keep_identical_ids and not is_folder(dev):
        raise UserError(
            "--keep-identical-ids is for a folder of queries with relevant documents (--dev FOLDER); leave it out"
        )
    by = None if metric is None else Measure.parse(metric)
    if dev is None or str(dev) == NONE:
        return None
    if isinstance(dev, Selector):
        return dev
    if not isinstance(dev, str | Path):
        pairs = dev if isinstance(dev, ScoredPairs) else given_pairs(dev, "dev")
        return GradedPairSelector(f"{len(pairs):,} given pairs, {pairs.fingerprint()[:8]}", pairs)
    if str(dev) in (AUTO, TEXT):
        found = own_text(text.read(), by)
        if found is not None:
            return asking(found)
        if str(dev) == TEXT:
            raise UserError(
                f"{text.name}: too small to hold a share out and ask {FEWEST} questions about it; choose by something "
                "else: --dev with graded pairs, or with a folder of queries and documents"
            )
    elif is_folder(dev):
        return asking(UserQueries.read(Path(dev), by, keep_identical_ids))
    if by is not None:
        raise UserError(f"--metric {metric} goes with questions (--dev text, or a folder of queries), not graded pairs")
    if str(dev) in (AUTO, SAMPLE):
        return GradedPairSelector("the built-in sample's dev pairs", read_scored_pairs(sample.DEV))
    return GradedPairSelector(str(dev), read_scored_pairs(Path(dev)))


def graded_pairs(dev: DevChoice) -> ScoredPairs | None:
    """Graded pairs to show what training changed: those chosen by, else the built-in ones; None where nothing chose."""
    if dev is None or str(dev) == NONE:
        return None
    if isinstance(dev, ScoredPairs):
        return dev
    if isinstance(dev, Selector):
        return read_scored_pairs(sample.DEV)
    if not isinstance(dev, str | Path):
        return given_pairs(dev, "dev")
    built_in = str(dev) in (AUTO, TEXT, SAMPLE) or is_folder(dev)
    return read_scored_pairs(sample.DEV if built_in else Path(dev))


def asking(questions: Questions) -> QuestionSelector:
    """Whoever chooses by ``questions``; the built-in pairs watch for forgetting."""
    return QuestionSelector(questions, Guard.built_in())


def unseen(selector: Selector, rows: Iterable[tuple[str, ...]]) -> tuple[Selector, list[str]]:
    """Leaves out the questions that are trained on.

    Args:
        selector: what a run is chosen by.
        rows: all rows of the training text.

    Returns:
        The selector without these questions, and lines for the user that say how many they are.

    Raises:
        UserError: where nothing is left to choose by.
    """
    asked = [*selector.asked()]
    return selector.without(TrainedTexts.among(rows, asked)) if asked else (selector, [])
