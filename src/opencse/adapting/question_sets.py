"""Makes questions with known answers from the order of a text or from pairs; no labels needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from opencse.adapting.holdout import HeldOut, fraction
from opencse.arrays import Integers
from opencse.evaluation.embedding import Embedded
from opencse.ranking import answer_ranks
from opencse.search.keyword_index import KeywordIndex
from opencse.text.languages import language_of_texts
from opencse.text.readers import Texts
from opencse.text.scripts import first_words, joined, normalised, pieces_of, search_words

QUESTIONS = 1_000
CANDIDATES = 2_000
WORDS = 64
"""First words of a body or of half a document that are used; more take time and hardly change which encoder is best."""
_FEWEST_WORDS = 4
_FEWEST_WORDS_TO_SPLIT = 8

Question = tuple[str, str, int]
"""Query, answer, unit."""
Pieces = list[tuple[int, int]]
"""Words of a text, each by where it starts and ends."""


@dataclass(frozen=True)
class QuestionSet:
    """n questions of one kind, each with one answer among m candidates.

    Attributes:
        kind: ``neighbours``, ``halves``, ``pairs``, ``crops`` or another, for the log.
        label: what these questions are, for the user.
        queries: n texts.
        candidates: m distinct texts.
        answers: (n,) row of each query's answer among the candidates.
        units: (n,) where each question comes from (see `HeldOut`).
    """

    kind: str
    label: str
    queries: list[str]
    candidates: list[str]
    answers: Integers
    units: Integers

    def __len__(self) -> int:
        return len(self.queries)

    def texts(self) -> list[str]:
        """Queries and candidates."""
        return [*self.queries, *self.candidates]

    def ranks(self, embedded: Embedded) -> Integers:
        """(n,) rank of each answer; see `answer_ranks`."""
        queries, candidates = embedded.queries.of(self.queries), embedded.of(self.candidates)
        return answer_ranks(queries, candidates, self.answers, self._own_rows(), embedded.similarity)

    def ranks_by_words(self) -> Integers:
        """(n,) rank of each answer by BM25; of equal scores, the answer comes last."""
        index = KeywordIndex.of(self.candidates, language_of_texts(self.candidates))
        ranks = []
        for query, answer, own_row in zip(self.queries, self.answers, self._own_rows(), strict=True):
            scores = index.scores(query)
            ahead = scores >= scores[answer]
            ranks.append(int(ahead.sum()) - int(own_row >= 0 and ahead[own_row]))
        return np.array(ranks, dtype=np.int64)

    def _own_rows(self) -> Integers:
        """(n,) row of each query among the candidates; -1 where it is not one."""
        row_of = {text: row for row, text in enumerate(self.candidates)}
        return np.array([row_of.get(query, -1) for query in self.queries], dtype=np.int64)


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
    return questions_of_parts(texts, held, "crops", "sentence-part questions", _two_thirds)


def questions_of_parts(
    texts: Texts, held: HeldOut, kind: str, label: str, parts: Callable[[Pieces], tuple[Pieces, Pieces]]
) -> QuestionSet:
    """Asks for one part of a sentence by another, among the same parts of other sentences.

    Args:
        texts: sentences.
        held: which of them are asked about.
        kind: see `QuestionSet`.
        label: see `QuestionSet`.
        parts: of a sentence's words, those that ask and those that are asked for.
    """
    questions: list[Question] = []
    others: list[str] = []
    sentences = [row[0] for row in texts.rows]
    held_rows = [(sentences[row], int(held.units[row]), True) for row in np.flatnonzero(held.held)]
    training = [(text, 0, False) for text in _not_held_out(sentences, held)[: 2 * CANDIDATES]]
    for text, unit, is_held in (*held_rows, *training):
        words = pieces_of(text)
        if len(words) < _FEWEST_WORDS_TO_SPLIT:
            continue
        first, second = (joined(text, part) for part in parts(words))
        if is_held:
            questions.append((first, second, unit))
        else:
            others.append(second)
    return _make(kind, label, questions, others)


def shorten(text: str, words: int = WORDS) -> str:
    """The first words of a text; a text that is short enough is unchanged."""
    return first_words(text, words)


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


def _two_thirds(words: Pieces) -> tuple[Pieces, Pieces]:
    third = len(words) // 3
    return words[: len(words) - third], words[third:]


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
