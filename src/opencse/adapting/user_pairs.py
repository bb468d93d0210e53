"""Adds the user's pairs of question and answer to the training rows and held-out questions of documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from opencse.adapting.holdout import HeldOut, hold_out
from opencse.adapting.question_sets import QuestionSet, shorten, without_answers
from opencse.adapting.question_sets import pairs as questions_of_pairs
from opencse.adapting.text_questions import FEWEST, TextQuestions
from opencse.adapting.trained_texts import rows_without
from opencse.numerals import number_of
from opencse.ranking import Measure
from opencse.text.readers import Texts
from opencse.text.scripts import count_words, normalised

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
        return cls(rows, TextQuestions((one,), held, metric or Measure(), from_pairs=True), many=True)

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
        rows = [row if len(row) > 1 else row * 2 for row in rows]
        rows, pairs = rows_without(rows, queries), rows_without(pairs, queries)
        times = min(TIMES, max(1, len(rows) // len(pairs))) if pairs else 1
        words = number_of(len(pairs), "given pair") + (f", {times} times each" if times > 1 else "")
        if self.too_few is not None:
            questions_made = number_of(self.too_few, "question")
            words += (
                f" (none is held out: a share of them makes {questions_made}, and at least {FEWEST_PAIRS} are needed)"
            )
        return rows + pairs * times, both, words


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
    first = int(of_pairs.held.units.max()) + 1
    sets_of_text = [
        replace(one, kind="titles", label="title questions") if one.kind == "pairs" else one for one in of_text.sets
    ]
    held = HeldOut(
        np.concatenate([of_pairs.held.units, of_text.held.units + first]),
        np.concatenate([of_pairs.held.held, of_text.held.held]),
        np.concatenate([of_pairs.held.repeated, of_text.held.repeated]),
    )
    return TextQuestions(
        (*of_pairs.sets, *(replace(one, units=one.units + first) for one in sets_of_text)),
        held,
        of_pairs.metric,
        from_pairs=True,
        weights=(share, *((1 - share) / len(sets_of_text) for _ in sets_of_text)),
    )


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
