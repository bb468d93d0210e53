"""Adds questions that a language model wrote about documents to their training rows and held-out questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from opencse.adapting.holdout import HeldOut, fraction
from opencse.adapting.question_sets import QuestionSet
from opencse.adapting.question_sets import pairs as questions_of_pairs
from opencse.adapting.text_questions import FEWEST, TextQuestions
from opencse.adapting.trained_texts import rows_without
from opencse.adapting.user_pairs import FEWEST_PAIRS, TIMES, TextRow
from opencse.arrays import Flags, Integers
from opencse.asking.sources import references_of
from opencse.errors import MissingColumnError, UserError, shortened
from opencse.numerals import number_of
from opencse.ranking import Measure
from opencse.text.documents import Document
from opencse.text.given import Text, open_texts
from opencse.text.readers import Source, Texts
from opencse.text.row_checks import checked_texts
from opencse.text.scripts import normalised

COLUMNS = ("question", "answer", "document")
"""The columns of a file of `opencse.questions` that are read."""
_REMEDY = "give a file that opencse questions wrote, or pairs with --pairs"
SHARE = 0.2
"""Of the documents, held out for written questions where the text itself gives no question."""
WrittenRow = tuple[str, str, str]
"""A question, the passage it is about, and what refers to its document (`opencse.asking.sources.references_of`)."""


def read_written(questions: Text) -> list[WrittenRow]:
    """Reads questions that `opencse.questions` wrote.

    Example:
        >>> read_written([("What removes limescale?", "Vinegar does.", "doc-7")])
        [('What removes limescale?', 'Vinegar does.', 'doc-7')]

    Args:
        questions: its file, or a list of question, answer and what refers to the document.

    Raises:
        UserError: for bad input, or rows of other texts.
    """
    if isinstance(questions, str | Path):
        source = Source(str(questions), COLUMNS)  # its records: ids of documents may be numbers, which `read` refuses
        try:
            rows = [checked_texts(record, source.location, source.unit) for record in source.records(COLUMNS)]
        except MissingColumnError as error:
            raise UserError(f"{error}; {_REMEDY}") from None
        where = source.location
    else:
        opened = open_texts(questions)
        rows, where = [*opened.read().rows], opened.location
    if not rows or len(rows[0]) != len(COLUMNS):
        raise UserError(
            f"{where}: {number_of(len(rows[0]) if rows else 0, 'text')} in a row; questions have three, "
            f"{', '.join(COLUMNS)}: {_REMEDY}"
        )
    return [(first, second, third) for first, second, third in rows]


def add_written(
    rows: Sequence[TextRow],
    questions: TextQuestions | None,
    written: Sequence[WrittenRow],
    documents: Sequence[Document],
    held: Sequence[int],
    metric: Measure | None = None,
    *,
    asks: bool = True,
) -> tuple[list[TextRow], TextQuestions | None, str]:
    """Adds written questions to the rows and questions that ``documents`` give.

    Those about documents that are held out already are not trained on: they are one more kind of question, with the
    weight of each other kind, where they are at least `FEWEST_PAIRS`. Where the text gives no questions, a fifth of the
    documents is held out for written ones, if they are at least `FEWEST`. Questions about other documents are trained
    on, repeated up to `TIMES` times as long as they are at most as many as the rows.

    Example:
        >>> documents = [Document("", (f"The text of document {n}.",), f"doc-{n}") for n in range(9)]
        >>> written = [(f"What is {n}?", f"The text of document {n}.", f"doc-{n}") for n in range(9)]
        >>> rows, questions, words = add_written([("a", "b")] * 30, None, written, documents, held=[])
        >>> len(rows), questions, words
        (57, None, '9 written questions, 3 times each')

    Args:
        rows: pairs of the documents, or sentences alone.
        questions: about held-out documents; None where there are too few.
        written: question, answer and what refers to the document each.
        documents: of the collection.
        held: numbers of the documents that ``questions`` hold out.
        metric: scores the rank of an answer, where ``questions`` is None.
        asks: ask written questions; else all are trained on.

    Returns:
        The rows to train on, the questions of all kinds, and what was added in words.

    Raises:
        UserError: if the questions are about other documents.
    """
    numbers = numbers_of_documents(written, documents)
    if not asks:
        out, least = np.zeros(len(written), dtype=bool), FEWEST
    elif questions is not None:
        out = np.isin(numbers, np.array(list(held), dtype=np.int64))
        least = FEWEST_PAIRS
    else:
        chance = {number: fraction(normalised(documents[number].body)) for number in set(numbers.tolist())}
        out = np.array([chance[number] < SHARE * 2.0**64 for number in numbers.tolist()], dtype=bool)
        least = FEWEST
    one = _asked(written, numbers, out, documents)
    if questions is not None and len(one) >= least:
        first = 1 + max(int(part.units.max()) for part in questions.sets)
        added = replace(one, units=one.units + first)
        questions = replace(questions, sets=(*questions.sets, added))
    elif questions is None and len(one) >= least:
        questions = TextQuestions((one,), HeldOut(numbers, out, _repeated(written, out)), metric or Measure())
    elif questions is None:
        out = np.zeros(len(written), dtype=bool)  # too few to select by: all are trained on
    trained = ~(out | _repeated(written, out))
    pairs: list[TextRow] = [row[:2] for row, is_trained in zip(written, trained.tolist(), strict=True) if is_trained]
    queries = {normalised(query) for part in (questions.sets if questions else ()) for query in part.queries}
    pairs = [row for row in pairs if normalised(row[0]) not in queries]
    rows = [row if len(row) > 1 else row * 2 for row in rows]
    rows = rows_without(rows, queries)
    times = min(TIMES, max(1, len(rows) // len(pairs))) if pairs else 1
    words = number_of(len(pairs), "written question") + (f", {times} times each" if times > 1 else "")
    return rows + pairs * times, questions, words


def _asked(written: Sequence[WrittenRow], numbers: Integers, out: Flags, documents: Sequence[Document]) -> QuestionSet:
    """The held-out written questions, with the documents as candidates."""
    texts = Texts([row[:2] for row in written], None, "written questions")
    bodies = (f"{document.title} {document.body}".strip() for document in documents)
    one = questions_of_pairs(texts, HeldOut(numbers, out, _repeated(written, out)), bodies)
    return replace(one, kind="written", label="written questions")


def _repeated(written: Sequence[WrittenRow], out: Flags) -> Flags:
    """(n,) other questions with a text that a held-out one has too."""
    keys = [(normalised(row[0]), normalised(row[1])) for row in written]
    held_keys = {key for pair, is_out in zip(keys, out.tolist(), strict=True) if is_out for key in pair}
    return np.array([any(key in held_keys for key in pair) for pair in keys], dtype=bool) & ~out


def numbers_of_documents(written: Sequence[WrittenRow], documents: Sequence[Document]) -> Integers:
    """(n,) the number of each question's document.

    Raises:
        UserError: naming the first that is not in the collection.
    """
    row_of: dict[str, int] = {}
    for row, reference in enumerate(references_of(documents)):
        row_of.setdefault(reference, row)
    missing = [row for row in written if row[2] not in row_of]
    if missing:
        question, _, reference = missing[0]
        raise UserError(
            f"{len(missing):,} of {len(written):,} questions are about documents that CORPUS does not have, or no "
            f"longer with this text (the first: {shortened(question)!r} about {shortened(reference)!r}); run opencse "
            "questions with this CORPUS again, which asks only about what has changed, or leave these rows out"
        )
    return np.array([row_of[reference] for _, _, reference in written], dtype=np.int64)
