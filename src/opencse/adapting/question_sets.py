"""Questions whose answers a text itself knows: no labels needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from opencse.adapting.holdout import HeldOut, fraction, normalised
from opencse.arrays import Integers
from opencse.evaluation.embedding import Embedded
from opencse.ranking import answer_ranks
from opencse.text.readers import Texts
from opencse.text.scripts import first_words, joined, pieces_of, search_words

QUESTIONS = 1_000
CANDIDATES = 2_000
WORDS = 64
"""Words of a body or of half a document that are read; more would cost time and hardly change an order of encoders."""
_FEWEST_WORDS = 4
_FEWEST_WORDS_TO_CUT = 8
_COMMON = 0.05  # share of texts: words in more of them are no giveaway

Question = tuple[str, str, int]
"""Query, answer, unit."""
Pieces = list[tuple[int, int]]
"""Words of a text, by their places in it."""


@dataclass(frozen=True)
class QuestionSet:
    """n questions, each with one answer among m candidates.

    Attributes:
        kind: ``neighbours``, ``halves``, ``pairs``, ``sentence halves`` or another, for the log.
        asks: what is asked, for the user.
        queries: n texts.
        candidates: m distinct texts.
        answers: (n,) row of each query's answer among the candidates.
        units: (n,) where each question comes from (see `HeldOut`).
    """

    kind: str
    asks: str
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
        place = {text: row for row, text in enumerate(self.candidates)}
        own = np.array([place.get(query, -1) for query in self.queries], dtype=np.int64)
        queries, candidates = embedded.queries.of(self.queries), embedded.of(self.candidates)
        return answer_ranks(queries, candidates, self.answers, own, embedded.similarity)


def neighbours(texts: Texts, held: HeldOut) -> QuestionSet:
    """A sentence -> the one that follows it, among thousands of sentences."""
    owner = texts.documents or [0] * len(texts.rows)
    told = [row[0] for row in texts.rows]
    found = [
        (told[row], told[row + 1], int(held.units[row]))
        for row in np.flatnonzero(held.held[:-1] & held.held[1:]).tolist()
        if owner[row] == owner[row + 1] and _words_in(told[row]) and _words_in(told[row + 1])
    ]
    others = [told[row] for row in np.flatnonzero(held.held)] + _others(told, held)
    return _make("neighbours", "which sentence follows a sentence", found, others)


def halves(texts: Texts, held: HeldOut) -> QuestionSet:
    """The first half of a document -> its second half, among those of other documents."""
    found: list[Question] = []
    others: list[str] = []
    for unit, sentences, is_held in _documents(texts, held):
        if len(sentences) < 2:
            continue
        middle = len(sentences) // 2
        first, second = cut(" ".join(sentences[:middle])), cut(" ".join(sentences[middle:]))
        if is_held and _words_in(first) and _words_in(second):
            found.append((first, second, unit))
        elif not is_held:
            others.append(second)
    return _make("halves", "which second half belongs to a first half of a document", found, _by_hash(others))


def pairs(texts: Texts, held: HeldOut, documents: Iterable[str] = ()) -> QuestionSet:
    """The first text of a pair -> the second, among those of other pairs and ``documents``.

    A document that holds the second text of a held-out pair, or is part of one, is no candidate beside it.
    """
    found = [
        (cut(row[0]), cut(row[1]), int(unit))
        for row, unit, is_held in zip(texts.rows, held.units, held.held, strict=True)
        if is_held
    ]
    others = [row[1] for row, out in zip(texts.rows, held.left_out, strict=True) if not out]
    answers = {normalised(row[1]) for row, is_held in zip(texts.rows, held.held, strict=True) if is_held}
    first: dict[str, Question] = {}
    for question in found:
        first.setdefault(normalised(question[0]), question)
    asks = "which second text belongs to the first of a pair"
    clear = _without(answers, [*others, *documents])
    return _make("pairs", asks, list(first.values()), clear, shared_answers=True)


def sentence_halves(texts: Texts, held: HeldOut) -> QuestionSet:
    """The first half of a sentence's words -> the second half, among those of other sentences."""
    return _of_sentences(
        texts, held, "sentence halves", "which second half belongs to a first half of a sentence", _two_halves
    )


def overlapping_crops(texts: Texts, held: HeldOut) -> QuestionSet:
    """The first two thirds of a sentence's words -> the last two thirds, among those of other sentences."""
    return _of_sentences(
        texts, held, "crops", "which last part belongs to an overlapping first part of a sentence", _two_thirds
    )


def dropped_words(texts: Texts, held: HeldOut) -> QuestionSet:
    """Every second word of a sentence -> the words between, among those of other sentences."""
    return _of_sentences(texts, held, "dropped words", "which words belong between those of a sentence", _alternate)


def without_giveaways(probes: QuestionSet) -> QuestionSet:
    """The same questions, of whose queries the words that the answer holds too are taken, common ones apart.

    What is left cannot be answered by matching words. Questions of which less than three words are left are dropped.
    """
    known = [set(normalised(text).split()) for text in probes.candidates]
    spread = Counter(word for words in known for word in words)
    most = max(2.0, _COMMON * len(known))
    kept: list[int] = []
    queries: list[str] = []
    for number, (query, answer) in enumerate(zip(probes.queries, probes.answers.tolist(), strict=True)):
        shared = {word for word in known[answer] if spread[word] <= most}
        words = [word for word in query.split() if not set(normalised(word).split()) & shared]
        if len(words) >= 3:
            kept.append(number)
            queries.append(" ".join(words))
    return replace(
        probes,
        kind=f"{probes.kind}, no shared words",
        queries=queries,
        answers=probes.answers[kept],
        units=probes.units[kept],
    )


def cut(text: str, words: int = WORDS) -> str:
    """The first words of a text; a text that is short enough stays as it is."""
    return first_words(text, words)


def _make(
    kind: str, asks: str, found: Sequence[Question], others: Iterable[str], *, shared_answers: bool = False
) -> QuestionSet:
    """The questions of lowest hash whose query (and answer) occur once, with candidates up to the limit."""
    queries = Counter(normalised(query) for query, _, _ in found)
    answers = Counter(normalised(answer) for _, answer, _ in found)
    clear = [
        question
        for question in found
        if queries[normalised(question[0])] == 1
        and (shared_answers or answers[normalised(question[1])] == 1)
        and normalised(question[0]) != normalised(question[1])
    ]
    clear.sort(key=lambda question: (fraction(question[0]), question[0]))
    clear = clear[:QUESTIONS]
    place: dict[str, int] = {}
    for _, answer, _ in clear:
        place.setdefault(answer, len(place))
    taken = {normalised(answer) for answer in place}
    for text in others:
        if len(place) >= max(CANDIDATES, len(clear)):
            break
        if normalised(text) not in taken:
            place.setdefault(text, len(place))
    return QuestionSet(
        kind,
        asks,
        [query for query, _, _ in clear],
        list(place),
        np.array([place[answer] for _, answer, _ in clear], dtype=np.int64),
        np.array([unit for _, _, unit in clear], dtype=np.int64),
    )


def _of_sentences(
    texts: Texts, held: HeldOut, kind: str, asks: str, parts: Callable[[Pieces], tuple[Pieces, Pieces]]
) -> QuestionSet:
    found: list[Question] = []
    others: list[str] = []
    told = [row[0] for row in texts.rows]
    held_rows = [(told[row], int(held.units[row]), True) for row in np.flatnonzero(held.held)]
    training = [(text, 0, False) for text in _others(told, held)[: 2 * CANDIDATES]]
    for text, unit, is_held in (*held_rows, *training):
        words = pieces_of(text)
        if len(words) < _FEWEST_WORDS_TO_CUT:
            continue
        first, second = (joined(text, part) for part in parts(words))
        if is_held:
            found.append((first, second, unit))
        else:
            others.append(second)
    return _make(kind, asks, found, others)


def _two_halves(words: Pieces) -> tuple[Pieces, Pieces]:
    middle = len(words) // 2
    return words[:middle], words[middle:]


def _two_thirds(words: Pieces) -> tuple[Pieces, Pieces]:
    third = len(words) // 3
    return words[: len(words) - third], words[third:]


def _alternate(words: Pieces) -> tuple[Pieces, Pieces]:
    return words[::2], words[1::2]


def _documents(texts: Texts, held: HeldOut) -> Iterable[tuple[int, list[str], bool]]:
    """Unit, sentences, and whether it is held out, of every document (or passage of a long one)."""
    borders = np.flatnonzero(np.r_[True, held.units[1:] != held.units[:-1], True])
    for start, end in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
        yield int(held.units[start]), [row[0] for row in texts.rows[start:end]], bool(held.held[start])


def _others(told: Sequence[str], held: HeldOut) -> list[str]:
    """Sentences of the rest of the text, by their hash."""
    rest = np.flatnonzero(~held.left_out)
    if len(rest) > 10 * CANDIDATES:  # far more than are read; evenly spread
        rest = rest[:: len(rest) // (10 * CANDIDATES)]
    return _by_hash([told[row] for row in rest.tolist() if _words_in(told[row])])


def _by_hash(texts: Iterable[str]) -> list[str]:
    return sorted(texts, key=lambda text: (fraction(text), text))


def _without(answers: set[str], texts: Iterable[str]) -> Iterator[str]:
    """The texts, cut and by their hash, without those that hold an answer or are part of one.

    Whole words within are looked up first, since comparing all with all takes minutes where texts are long.
    """
    keys: dict[str, list[str]] = {}
    places: dict[str, list[str]] = {}
    for answer in answers:
        keys.setdefault(_inner_word(answer), []).append(answer)
        for word in set(answer.split()):
            places.setdefault(word, []).append(answer)
    whole = {cut(text): text for text in texts}
    for short in _by_hash(whole):
        text = normalised(whole[short])
        inner = _inner_word(text)
        held = (answer for word in {"", *text.split()} for answer in keys.get(word, ()))
        holding = places.get(inner, ()) if inner else answers
        if not any(answer in text for answer in held) and not any(text in answer for answer in holding):
            yield short


def _inner_word(text: str) -> str:
    """The longest word that has others on both sides, and so is a word of whatever holds the text; empty without."""
    return max(text.split()[1:-1], key=len, default="")


def _words_in(text: str) -> bool:
    return len(search_words(text)) >= _FEWEST_WORDS
