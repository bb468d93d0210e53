"""Questions with known answers from a held-out share of a text, from its order or from pairs; no labels needed."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from opencse.arrays import Flags, Floats, Integers
from opencse.numerals import number_of
from opencse.ranking import Measure
from opencse.text.readers import Texts
from opencse.text.scripts import first_words, joined, normalised, pieces_of, search_words
from opencse.training.questions import FEWEST, Questions, QuestionSet, answered, fraction

if TYPE_CHECKING:
    from opencse.encoder.encoder import SentenceEncoder


SHARE, LARGEST_SHARE, ENOUGH_UNITS = 0.1, 0.2, 300
"""A tenth of the text; more of a small text, up to a fifth, because few questions show little."""
MOST_ROWS = 4_000
PASSAGE = 100
"""Rows of a passage: a longer document is split into passages, so that a book can be held out in part."""
_LARGEST = 0.02
"""Share of all rows: a larger group of pairs with common texts is never held out."""


@dataclass(frozen=True)
class HeldOut:
    """Which rows of a text are held out.

    Attributes:
        units: (M,) the document, passage or group of pairs of each row, numbered from 0; each is held out completely or
            not at all.
        held: (M,) rows that questions are made of.
        repeated: (M,) other rows with a text that is also in held-out rows, ignoring letter case and punctuation; left
            out of training so that no answer can be memorised.
    """

    units: Integers
    held: Flags
    repeated: Flags

    @property
    def left_out(self) -> Flags:
        """(M,) rows that must not be trained on."""
        return self.held | self.repeated


def hold_nothing_out(texts: Texts) -> HeldOut:
    """Holds no row of a text out of training.

    >>> hold_nothing_out(Texts([("A cat.",), ("A dog.",)], None, "sentences")).left_out.tolist()
    [False, False]
    """
    none = np.zeros(len(texts.rows), dtype=bool)
    return HeldOut(np.arange(len(texts.rows), dtype=np.int64), none, none)


def hold_out(texts: Texts, share: float | None = None) -> HeldOut:
    """Holds out units of a text: documents (passages of long ones), groups of pairs with common texts, or sentences.

    A unit is held out if the hash of its texts is in the lowest ``share`` of all hashes. So the selection depends only
    on the content, equal units are held out together, and a text that grows has the same units held out as before.
    Beyond ``MOST_ROWS`` rows, the units of the lowest hashes are held out.

    Args:
        texts: the text.
        share: of the units, between 0 and 1; by default ``SHARE``, or what makes ``ENOUGH_UNITS`` units, up to
            ``LARGEST_SHARE``.

    Example:
        >>> texts = Texts([(f"Sentence number {n}.",) for n in range(1000)], None, "sentences")
        >>> held = hold_out(texts)
        >>> int(held.held.sum()), int(held.repeated.sum())
        (204, 0)
    """
    keys = [tuple(normalised(text) for text in row) for row in texts.rows]
    units = _groups(keys) if texts.width > 1 else _passages(keys, texts.documents)
    rows = np.bincount(units)
    hashes = _hashes(keys, units, len(rows))
    if share is None:
        share = min(LARGEST_SHARE, max(SHARE, ENOUGH_UNITS / len(rows)))
    eligible = rows <= max(1, _LARGEST * len(keys)) if texts.width > 1 else np.ones(len(rows), dtype=bool)
    order = np.lexsort((np.arange(len(rows)), hashes))
    order = order[(eligible & (hashes < share * 2.0**64))[order]]
    held_units = order[np.cumsum(rows[order]) <= MOST_ROWS]
    held = np.isin(units, held_units)
    held_keys = {key for row, is_held in zip(keys, held, strict=True) if is_held for key in row}
    repeated = np.fromiter((any(key in held_keys for key in row) for row in keys), dtype=bool, count=len(keys)) & ~held
    return HeldOut(units, held, repeated)


def _passages(keys: Sequence[tuple[str, ...]], documents: Sequence[int] | None) -> Integers:
    """Numbers of documents, or of passages of long ones; of sentences without order, equal ones are one unit."""
    if documents is None:
        first: dict[tuple[str, ...], int] = {}
        return np.fromiter((first.setdefault(key, len(first)) for key in keys), dtype=np.int64, count=len(keys))
    owner = np.asarray(documents, dtype=np.int64)
    begins = np.r_[True, owner[1:] != owner[:-1]]
    starts = np.flatnonzero(begins)
    inside = np.arange(len(owner)) - starts[np.cumsum(begins) - 1]
    return np.cumsum(begins | (inside % PASSAGE == 0)) - 1


def _groups(keys: Sequence[tuple[str, ...]]) -> Integers:
    """Numbers of the groups of rows that are connected by common texts."""
    above = list(range(len(keys)))  # of each row, an earlier row of its group, or itself

    def first(row: int) -> int:
        while above[row] != row:
            above[row] = row = above[above[row]]
        return row

    seen: dict[str, int] = {}
    for row, texts in enumerate(keys):
        for text in texts:
            one, other = first(seen.setdefault(text, row)), first(row)
            above[max(one, other)] = min(one, other)
    return np.unique([first(row) for row in range(len(keys))], return_inverse=True)[1].astype(np.int64)


def _hashes(keys: Sequence[tuple[str, ...]], units: Integers, count: int) -> Floats:
    """(count,) a hash of the texts of each unit, in [0, 2^64)."""
    digests = [hashlib.blake2b(digest_size=8) for _ in range(count)]
    for row, unit in zip(keys, units.tolist(), strict=True):
        for key in row:
            digests[unit].update(key.encode() + b"\n")
    return np.array([float(int.from_bytes(digest.digest(), "little")) for digest in digests])


QUESTIONS = 1_000
CANDIDATES = 2_000
WORDS = 64
"""First words of a body or of half a document that are used; more take time and hardly change which encoder is best."""
_FEWEST_WORDS = 4
_FEWEST_WORDS_TO_SPLIT = 8

Question = tuple[str, str, int]
"""Query, answer, unit."""


def neighbours(texts: Texts, held: HeldOut) -> QuestionSet:
    """Asks for the sentence that follows a sentence, among thousands of sentences."""
    owner = texts.documents or [0] * len(texts.rows)
    sentences = [row[0] for row in texts.rows]
    questions = [
        (sentences[row], sentences[row + 1], int(held.units[row]))
        for row in np.flatnonzero(held.held[:-1] & held.held[1:]).tolist()
        if owner[row] == owner[row + 1] and _has_words(sentences[row]) and _has_words(sentences[row + 1])
    ]
    others = [sentences[row] for row in np.flatnonzero(held.held)] + _not_held_out(sentences, held)
    return _make("neighbours", "next-sentence questions", questions, others)


def halves(texts: Texts, held: HeldOut) -> QuestionSet:
    """Asks for the second half of a document by its first half, among the second halves of other documents."""
    questions: list[Question] = []
    others: list[str] = []
    for unit, sentences, is_held in _documents(texts, held):
        if len(sentences) < 2:
            continue
        middle = len(sentences) // 2
        first, second = shorten(" ".join(sentences[:middle])), shorten(" ".join(sentences[middle:]))
        if is_held and _has_words(first) and _has_words(second):
            questions.append((first, second, unit))
        elif not is_held:
            others.append(second)
    return _make("halves", "second-half questions", questions, _by_hash(others))


def pairs(texts: Texts, held: HeldOut, documents: Iterable[str] = ()) -> QuestionSet:
    """Asks for the second text of a pair by its first, among the second texts of other pairs and ``documents``.

    A document that holds the second text of a held-out pair, or is part of one, is no candidate.
    """
    questions = [
        (shorten(row[0]), shorten(row[1]), int(unit))
        for row, unit, is_held in zip(texts.rows, held.units, held.held, strict=True)
        if is_held
    ]
    others = [row[1] for row, out in zip(texts.rows, held.left_out, strict=True) if not out]
    answers = {normalised(row[1]) for row, is_held in zip(texts.rows, held.held, strict=True) if is_held}
    first: dict[str, Question] = {}
    for question in questions:
        first.setdefault(normalised(question[0]), question)
    candidates = without_answers(answers, [*others, *documents])
    return _make("pairs", "retrieval questions", list(first.values()), candidates, shared_answers=True)


def overlapping_crops(texts: Texts, held: HeldOut) -> QuestionSet:
    """Asks for the last two thirds of a sentence's words by the first two thirds, among parts of other sentences."""
    questions: list[Question] = []
    others: list[str] = []
    sentences = [row[0] for row in texts.rows]
    held_rows = [(sentences[row], int(held.units[row]), True) for row in np.flatnonzero(held.held)]
    training = [(text, 0, False) for text in _not_held_out(sentences, held)[: 2 * CANDIDATES]]
    for text, unit, is_held in (*held_rows, *training):
        words = pieces_of(text)
        if len(words) < _FEWEST_WORDS_TO_SPLIT:
            continue
        third = len(words) // 3
        first, second = joined(text, words[: len(words) - third]), joined(text, words[third:])
        if is_held:
            questions.append((first, second, unit))
        else:
            others.append(second)
    return _make("crops", "sentence-part questions", questions, others)


def shorten(text: str) -> str:
    """The first words of a text; a text that is short enough is unchanged."""
    return first_words(text, WORDS)


def _make(
    kind: str, label: str, questions: Sequence[Question], others: Iterable[str], *, shared_answers: bool = False
) -> QuestionSet:
    """The questions of lowest hash whose query (and answer) occur once, with candidates up to the limit."""
    queries = Counter(normalised(query) for query, _, _ in questions)
    answers = Counter(normalised(answer) for _, answer, _ in questions)
    clear = [
        question
        for question in questions
        if queries[normalised(question[0])] == 1
        and (shared_answers or answers[normalised(question[1])] == 1)
        and normalised(question[0]) != normalised(question[1])
    ]
    clear.sort(key=lambda question: (fraction(question[0]), question[0]))
    clear = clear[:QUESTIONS]
    row_of: dict[str, int] = {}  # of each candidate
    for _, answer, _ in clear:
        row_of.setdefault(answer, len(row_of))
    answer_keys = {normalised(answer) for answer in row_of}
    for text in others:
        if len(row_of) >= max(CANDIDATES, len(clear)):
            break
        if normalised(text) not in answer_keys:
            row_of.setdefault(text, len(row_of))
    return QuestionSet(
        kind,
        label,
        [query for query, _, _ in clear],
        list(row_of),
        np.array([row_of[answer] for _, answer, _ in clear], dtype=np.int64),
        np.array([unit for _, _, unit in clear], dtype=np.int64),
    )


def _documents(texts: Texts, held: HeldOut) -> Iterable[tuple[int, list[str], bool]]:
    """Number, sentences, and whether it is held out, of every document (or passage of a long one)."""
    borders = np.flatnonzero(np.r_[True, held.units[1:] != held.units[:-1], True])
    for start, end in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
        yield int(held.units[start]), [row[0] for row in texts.rows[start:end]], bool(held.held[start])


def _not_held_out(sentences: Sequence[str], held: HeldOut) -> list[str]:
    """Sentences that are not held out, sorted by their hash."""
    rest = np.flatnonzero(~held.left_out)
    if len(rest) > 10 * CANDIDATES:  # far more than are used; take them evenly
        rest = rest[:: len(rest) // (10 * CANDIDATES)]
    return _by_hash([sentences[row] for row in rest.tolist() if _has_words(sentences[row])])


def _by_hash(texts: Iterable[str]) -> list[str]:
    return sorted(texts, key=lambda text: (fraction(text), text))


def without_answers(answers: set[str], texts: Iterable[str]) -> Iterator[str]:
    """The texts, shortened and sorted by their hash, without those that hold an answer or are part of one.

    An index of whole words narrows the comparisons down: comparing all with all takes minutes where texts are long.
    """
    keys: dict[str, list[str]] = {}
    answers_with: dict[str, list[str]] = {}
    for answer in answers:
        keys.setdefault(_inner_word(answer), []).append(answer)
        for word in set(answer.split()):
            answers_with.setdefault(word, []).append(answer)
    full_text = {shorten(text): text for text in texts}
    for short in _by_hash(full_text):
        text = normalised(full_text[short])
        inner = _inner_word(text)
        contained = (answer for word in {"", *text.split()} for answer in keys.get(word, ()))
        holding = answers_with.get(inner, ()) if inner else answers
        if not any(answer in text for answer in contained) and not any(text in answer for answer in holding):
            yield short


def _inner_word(text: str) -> str:
    """The longest word with other words on both sides, which any text that holds this one has too; empty if none."""
    return max(text.split()[1:-1], key=len, default="")


def _has_words(text: str) -> bool:
    return len(search_words(text, pairs=False)) >= _FEWEST_WORDS


QuestionMaker = Callable[[Texts, HeldOut], QuestionSet]


@dataclass(eq=False)
class TextQuestions(Questions):
    """Questions from a held-out share of a text; an encoder answers with the nearest candidate.

    The score is the mean of the kinds' means, weighted by ``weights``, however many questions each kind has.

    Attributes:
        sets: the questions, one set per kind.
        held: the rows that are held out.
        left_out: (M,) rows of the training text that must not be trained on; None where no held-out row is in it.
        from_pairs: whether held-out pairs of the user are asked about, alone or with the order of the text.
        weights: of the kinds, with a sum of 1; empty where they count equally.
    """

    sets: tuple[QuestionSet, ...]
    held: HeldOut
    left_out: Flags | None = None
    from_pairs: bool = False
    weights: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        """Their name, for the user."""
        return "questions from the text itself"

    @property
    def source(self) -> str:
        """Where they are from, within a sentence."""
        if self.from_pairs:
            return "held-out pairs and text" if len(self.sets) > 1 else "held-out pairs"
        return "held-out text"

    @property
    def count(self) -> str:
        """How many questions and candidates there are, and how many rows are held out for them."""
        counts = " and ".join(
            f"{len(one):,} {one.label} over {number_of(len(one.candidates), 'candidate')}" for one in self.sets
        )
        return f"{counts}; {number_of(int(self.held.held.sum()), 'row')} held out"

    @property
    def units(self) -> Integers:
        """(n,) document, passage or group of pairs of each question, kind after kind."""
        return np.concatenate([one.units for one in self.sets])

    @property
    def kinds(self) -> Integers:
        """(n,) number of each question's set."""
        return np.repeat(np.arange(len(self.sets), dtype=np.int64), [len(one) for one in self.sets])

    @property
    def own_words(self) -> bool:
        """Whether the text asks all of them about itself."""
        return not self.from_pairs

    @property
    def unknown(self) -> str:
        """What these questions cannot show."""
        if self.from_pairs:
            return (
                "other questions like these should gain about as much; for other kinds, measure with your own queries "
                "(--dev FOLDER)"
            )
        return "which of the two people ask like, no text can tell: measure with your own queries (--dev FOLDER)"

    def held_out(self) -> list[str]:
        """Questions and answers, each text once; none of them is trained on in this form."""
        texts = ([*one.queries, *(one.candidates[row] for row in one.answers)] for one in self.sets)
        return list(dict.fromkeys(text for texts_of_set in texts for text in texts_of_set))

    def content(self) -> list[object]:
        """The questions, their candidates and answers, and the measure."""
        contents = [[one.kind, list(one.queries), list(one.candidates), one.answers.tolist()] for one in self.sets]
        return [str(self.metric), *contents, *([list(self.weights)] if self.weights else [])]

    def values(self, encoder: SentenceEncoder) -> Floats:
        """(n,) the measure of each question, kind after kind, scaled so that their mean is that of the kinds."""
        return self._scaled(answered(encoder, self.sets, self.metric))

    def by_words(self) -> float:
        """The score of BM25."""
        return float(self._scaled([self.metric.of_ranks(one.ranks_by_words()) for one in self.sets]).mean())

    def parts(self, values: Floats) -> dict[str, float]:
        """The mean of each kind."""
        ends = np.cumsum([len(one) for one in self.sets])[:-1]
        return {
            one.kind.replace(",", "").replace(" ", "_"): float(part.mean() / scale)
            for one, part, scale in zip(self.sets, np.split(values, ends), self._scales(), strict=True)
        }

    def joined(self, other: TextQuestions, weights: Sequence[float]) -> TextQuestions:
        """These questions and ``other``, which are about other documents, with a weight of each kind of both."""
        first = 1 + max(int(units.max()) for units in (self.held.units, self.units))
        units = np.concatenate([self.held.units, other.held.units + first])
        held, repeated = (
            np.concatenate(two)
            for two in ((self.held.held, other.held.held), (self.held.repeated, other.held.repeated))
        )
        sets = (*self.sets, *(replace(one, units=one.units + first) for one in other.sets))
        from_pairs = self.from_pairs or other.from_pairs
        return TextQuestions(
            sets, HeldOut(units, held, repeated), metric=self.metric, from_pairs=from_pairs, weights=tuple(weights)
        )

    def _scaled(self, by_kind: Sequence[Floats]) -> Floats:
        return np.concatenate([values * scale for values, scale in zip(by_kind, self._scales(), strict=True)])

    def _scales(self) -> list[float]:
        total = sum(len(one) for one in self.sets)
        weights = self.weights or (1 / len(self.sets),) * len(self.sets)
        return [total * weight / len(one) for one, weight in zip(self.sets, weights, strict=True)]


def text_questions(texts: Texts, metric: Measure | None = None) -> TextQuestions | None:
    """Holds out a share of ``texts`` and makes questions from it; None where the text is too small for any.

    Args:
        texts: the training text.
        metric: scores the rank of an answer; nDCG@10 by default.

    Example:
        >>> rows = [(f"question {n} about thing {n}", f"an answer that explains thing {n}") for n in range(600)]
        >>> questions = text_questions(Texts(rows, None, "pairs"))
        >>> questions.size
        '130 retrieval questions over 439 candidates; 130 rows held out'
    """
    held = hold_out(texts)
    sets = question_sets(texts, held)
    if not sets:
        return None
    return TextQuestions(sets, held, held.left_out, from_pairs=texts.width > 1, metric=metric or Measure())


def question_sets(texts: Texts, held: HeldOut) -> tuple[QuestionSet, ...]:
    """Makes the kinds of questions that a text allows; kinds of fewer than ``FEWEST`` are left out.

    Pairs: the held-out pairs. Running text: neighbouring sentences and halves of
    documents. Loose sentences: two overlapping parts of each.
    """
    makers: tuple[QuestionMaker, ...]
    if texts.width > 1:
        makers = (pairs,)
    elif texts.documents is not None:
        makers = (neighbours, halves)
    else:
        makers = (overlapping_crops,)
    every_kind = (make(texts, held) for make in makers)
    return tuple(questions for questions in every_kind if len(questions) >= FEWEST)
