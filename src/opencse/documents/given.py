"""Adds what the user gives to the rows and questions of documents: pairs, and questions of a language model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from opencse.arrays import Flags, Integers
from opencse.asking.plan import references_of
from opencse.documents.questions import HeldOut, TextQuestions, hold_out, shorten, without_answers
from opencse.documents.questions import pairs as questions_of_pairs
from opencse.errors import MissingColumnError, UserError, shortened
from opencse.numerals import number_of
from opencse.ranking import Measure
from opencse.text.documents import Document
from opencse.text.given import Text, open_texts
from opencse.text.readers import Source, Texts
from opencse.text.scripts import count_words, normalised
from opencse.text.values import checked_texts
from opencse.training.questions import FEWEST, QuestionSet, fraction
from opencse.training.selection import rows_without

TIMES = 30
"""How often, at most, one of the user's pairs is trained on for each time that a pair of the documents is."""
FEWEST_PAIRS = 30
"""Fewest held-out pairs that are asked about; with fewer all pairs are trained on, and the text's questions select."""
TRUST = 100
"""Held-out pairs that count as much as all questions from the text.

The gain on n questions has a standard error of about 30 points / sqrt(n), and what the text's questions show is about 3
points from what people's questions do; the two errors are equal at n = 100."""
_FEWEST_WORDS = 4
TextRow = tuple[str, ...]


@dataclass(frozen=True)
class UserPairs:
    """The user's pairs: those to train on, and questions about those that are held out.

    Attributes:
        rows: pairs to train on, each once.
        questions: about the held-out pairs; None where none is held out.
        many: whether a tenth to a fifth of the pairs makes `FEWEST_PAIRS` questions, also where none is held out.
        too_few: how many questions that share makes where it was to be asked about and is less; None otherwise.
    """

    rows: tuple[TextRow, ...]
    questions: TextQuestions | None
    many: bool = False
    too_few: int | None = None

    @classmethod
    def split(
        cls,
        pairs: Sequence[tuple[str, str]],
        documents: Iterable[str] = (),
        metric: Measure | None = None,
        *,
        asks: bool = True,
    ) -> UserPairs:
        """Holds out a tenth to a fifth of ``pairs`` where that makes enough questions.

        Pairs with a common text are held out together.

        Args:
            pairs: of a question and a text that answers it.
            documents: more candidates for the answers.
            metric: scores the rank of an answer; nDCG@10 by default.
            asks: hold pairs out and ask about them; else all are trained on.

        Example:
            >>> pairs = [(f"question {n} about thing {n}", f"an answer that explains thing {n}") for n in range(300)]
            >>> user_pairs = UserPairs.split(pairs)
            >>> len(user_pairs.rows), len(user_pairs.questions.sets[0]), UserPairs.split(pairs[:30]).questions
            (237, 63, None)
        """
        texts = Texts([*pairs], None, "pairs")
        held = hold_out(texts)
        one = questions_of_pairs(texts, held, documents)
        if len(one) < FEWEST_PAIRS:
            return cls(tuple(pairs), None, too_few=len(one) if asks else None)
        if not asks:
            return cls(tuple(pairs), None, many=True)
        rows = tuple(pair for pair, out in zip(pairs, held.left_out.tolist(), strict=True) if not out)
        return cls(rows, TextQuestions((one,), held, from_pairs=True, metric=metric or Measure()), many=True)

    @property
    def _enough(self) -> bool:
        """Whether the held-out pairs can select alone."""
        return self.questions is not None and len(self.questions.units) >= TRUST

    def added_to(
        self, rows: Sequence[TextRow], questions: TextQuestions | None
    ) -> tuple[list[TextRow], TextQuestions | None, str]:
        """Adds these pairs to the rows and questions that the documents give.

        All rows stay except those that hold a held-out question. A pair is repeated up to `TIMES` times, as long as the
        pairs are at most as many as the rows. Sentences without order become pairs of a sentence with itself, which
        dropout makes two views of. Questions about a held-out document that a pair answers with are dropped, because
        that document is trained on. Where too few would remain, the held-out pairs select alone if they are at least
        `TRUST`; otherwise these pairs are dropped instead.

        Args:
            rows: of the documents: pairs, or sentences alone.
            questions: about held-out documents; None where there are too few.

        Returns:
            The rows to train on, the questions of both kinds (see `questions_of_both`), and what was added in words.
        """
        pairs = list(self.rows)
        if questions is not None:
            untouched = about_others(questions, pairs)
            if untouched is None and self._enough:
                questions = None
            elif untouched is None:
                pairs = _without_answers_to(questions, pairs)
            else:
                questions = untouched
        both = questions_of_both(questions, self.questions)
        queries = [query for one in (both.sets if both else ()) for query in one.queries]
        rows, words = _with(rows, rows_without(pairs, queries), queries, "given pair")
        if self.too_few is not None:
            questions_made = number_of(self.too_few, "question")
            words += (
                f" (none is held out: a share of them makes {questions_made}, and at least {FEWEST_PAIRS} are needed)"
            )
        return rows, both, words


def _with(
    rows: Sequence[TextRow], pairs: Sequence[TextRow], queries: Iterable[str], name: str
) -> tuple[list[TextRow], str]:
    """Adds ``pairs``, each up to `TIMES` times, to the rows that hold none of ``queries``; and says what they are."""
    rows = rows_without([row if len(row) > 1 else row * 2 for row in rows], queries)
    times = min(TIMES, max(1, len(rows) // len(pairs))) if pairs else 1
    return rows + [*pairs] * times, number_of(len(pairs), name) + (f", {times} times each" if times > 1 else "")


def questions_of_both(of_text: TextQuestions | None, of_pairs: TextQuestions | None) -> TextQuestions | None:
    """Combines questions about held-out documents and held-out pairs into one score.

    Of n held-out pairs the mean counts n / (n + `TRUST`), that of the text's kinds together the rest: few pairs say
    little, and many say more than any question that a text asks about itself.

    Example:
        >>> pairs = [(f"question {n} about thing {n}", f"an answer that explains thing {n}") for n in range(300)]
        >>> of_pairs = UserPairs.split(pairs).questions
        >>> questions_of_both(of_pairs, of_pairs).weights
        (0.38650306748466257, 0.6134969325153374)
    """
    if of_text is None or of_pairs is None:
        return of_text or of_pairs
    count = len(of_pairs.units)
    share = count / (count + TRUST)
    sets = [
        replace(one, kind="titles", label="title questions") if one.kind == "pairs" else one for one in of_text.sets
    ]
    return of_pairs.joined(replace(of_text, sets=tuple(sets)), (share, *((1 - share) / len(sets) for _ in sets)))


def about_others(questions: TextQuestions, pairs: Sequence[TextRow]) -> TextQuestions | None:
    """The questions whose answer is in no pair, of the kinds that keep all or `FEWEST`; None if no kind does."""
    known = {key for row in pairs for key in map(normalised, row) if count_words(key) >= _FEWEST_WORDS}
    sets = []
    for one in questions.sets:
        free = set(without_answers(known, {one.candidates[row] for row in one.answers.tolist()}))
        numbers = [
            number
            for number, (query, row) in enumerate(zip(one.queries, one.answers.tolist(), strict=True))
            if shorten(one.candidates[row]) in free and normalised(query) not in known
        ]
        if len(numbers) >= min(FEWEST, len(one)):
            sets.append(_some(one, numbers))
    return replace(questions, sets=tuple(sets), weights=()) if sets else None


def _some(one: QuestionSet, numbers: Sequence[int]) -> QuestionSet:
    """The questions of these numbers, with all candidates."""
    return replace(
        one, queries=[one.queries[n] for n in numbers], answers=one.answers[[*numbers]], units=one.units[[*numbers]]
    )


def _without_answers_to(questions: TextQuestions, pairs: Sequence[TextRow]) -> list[TextRow]:
    """The pairs whose answer is not that of a question."""
    answers = {normalised(one.candidates[row]) for one in questions.sets for row in one.answers.tolist()}
    free = set(without_answers(answers, {row[1] for row in pairs}))
    return [row for row in pairs if shorten(row[1]) in free]


COLUMNS = ("question", "answer", "document")
"""The columns of a file of `opencse.questions` that are read."""
_REMEDY = "give a file that opencse questions wrote, or pairs with --pairs"
SHARE_OF_DOCUMENTS = 0.2
"""Of the documents, held out for written questions where the text itself gives no question."""
WrittenRow = tuple[str, str, str]
"""A question, the passage it is about, and what refers to its document (`opencse.asking.plan.references_of`)."""


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
        out = np.array([chance[number] < SHARE_OF_DOCUMENTS * 2.0**64 for number in numbers.tolist()], dtype=bool)
        least = FEWEST
    one = _asked(written, numbers, out, documents)
    if questions is not None and len(one) >= least:
        first = 1 + max(int(part.units.max()) for part in questions.sets)
        added = replace(one, units=one.units + first)
        questions = replace(questions, sets=(*questions.sets, added))
    elif questions is None and len(one) >= least:
        questions = TextQuestions((one,), HeldOut(numbers, out, _repeated(written, out)), metric=metric or Measure())
    elif questions is None:
        out = np.zeros(len(written), dtype=bool)  # too few to select by: all are trained on
    trained = ~(out | _repeated(written, out))
    pairs: list[TextRow] = [row[:2] for row, is_trained in zip(written, trained.tolist(), strict=True) if is_trained]
    queries = {normalised(query) for part in (questions.sets if questions else ()) for query in part.queries}
    pairs = [row for row in pairs if normalised(row[0]) not in queries]
    rows, words = _with(rows, pairs, queries, "written question")
    return rows, questions, words


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
