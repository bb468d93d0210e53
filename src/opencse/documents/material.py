"""Makes training rows and held-out questions from documents and the user's pairs of question and answer."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from opencse.documents.given import UserPairs, WrittenRow, add_written
from opencse.documents.questions import HeldOut, TextQuestions, hold_nothing_out, hold_out, question_sets
from opencse.documents.questions import pairs as questions_of_pairs
from opencse.errors import UserError
from opencse.numerals import number_of
from opencse.progress import Count, uncounted
from opencse.ranking import Measure
from opencse.search.keyword_index import KeywordIndex
from opencse.text.documents import Document
from opencse.text.readers import Texts
from opencse.text.scripts import count_words, normalised, search_words
from opencse.training.questions import FEWEST, QuestionSet

MOST = 20_000
"""Most titles and sentences that are looked up, and most pairs of a kind."""
SEARCHED = 100_000
"""Most passages that are searched; a random sample where there are more."""
PASSAGE = 300
"""Words of a passage: a longer document is split into passages of about this size, at ends of sentences."""
Owned = tuple[int, str]
"""The number of a document, and a text of it."""


def pairs_by_shared_words(
    questions: Sequence[Owned], passages: Sequence[Owned], most: int, count: Count = uncounted
) -> list[tuple[str, str]]:
    r"""Pairs each title or sentence with the passage of another document that scores highest for it by BM25.

    BM25 compares words and no meaning, and so finds the names and rare words that a general encoder does not know. It
    needs no encoder, so the pairs are the same for every start. Random choices use a fixed seed.

    Args:
        questions: titles and sentences.
        passages: the possible answers.
        most: pairs to make; as many of ``questions`` are drawn at random, at most `MOST`.
        count: called with the questions done, and of how many.

    Returns:
        At most ``most`` pairs; a text that shares no word with another document is in none.

    Source: our own; docs/results/adapt.md shows what they add.

    Example:
        >>> questions = [(0, "the kettle has limescale")]
        >>> passages = [(0, "my kettle"), (1, "vinegar removes limescale"), (2, "a long walk")]
        >>> pairs_by_shared_words(questions, passages, most=1)
        [('the kettle has limescale', 'vinegar removes limescale')]
    """
    draw = random.Random(0)
    questions = draw.sample(questions, min(len(questions), most, MOST))
    if len(passages) > SEARCHED:
        passages = draw.sample(passages, SEARCHED)
    words = KeywordIndex.of([text for _, text in passages])
    owners = np.array([owner for owner, _ in passages], dtype=np.int64)
    rows: list[tuple[str, str]] = []
    for done, (owner, question) in enumerate(questions, 1):
        scores = words.scores(question)
        # The own document would be found first.
        scores[owners == owner] = 0.0
        if len(scores) and scores.max() > 0:
            rows.append((question, passages[int(scores.argmax())][1]))
        if done % 100 == 0 or done == len(questions):
            count(done, len(questions))
    return rows


def passages_of(document: Document) -> Iterator[tuple[range, str]]:
    """Splits a document into passages of about `PASSAGE` words: their sentences, and the text after the title."""
    first, words = 0, 0
    for number, sentence in enumerate(document.sentences, 1):
        words += count_words(sentence)
        if words >= PASSAGE or number == len(document.sentences):
            text = " ".join((document.title, *document.sentences[first:number])).strip()
            yield range(first, number), text
            first, words = number, 0


_FEWEST_WORDS = 3
_KEY_WORDS = (2, 5)
"""Fewest and most words of a short query, as people type them."""
_TOO_RARE = 2
"""A word that fewer passages hold is left out: nearly all are misspelt, or numbers."""
PassagePairs = list[tuple[str, str]]


def _without(passage: Document, number: int) -> str:
    """Title and text of a passage without one sentence; -1 leaves none out."""
    remaining = (sentence for row, sentence in enumerate(passage.sentences) if row != number)
    return " ".join((passage.title, *remaining)).strip()


def sentences_with_passages(passages: Sequence[Document], most: int) -> PassagePairs:
    """Pairs a sentence with the rest of its passage, from which it is removed (Lee et al. 2019, inverse cloze task).

    It teaches an encoder that reads only the beginning of a text what the later sentences of such a text are about.

    Args:
        passages: of at least two sentences; others are skipped.
        most: pairs to make, at most `MOST`; a random selection with a fixed seed, in a random order.

    Source: Latent Retrieval for Weakly Supervised Open Domain Question Answering. arXiv:1906.00300, section 4.

    Example:
        >>> kettles = Document("Kettles", ("They boil the water quickly.", "Vinegar removes the limescale."))
        >>> sentences_with_passages([kettles], most=1)
        [('Vinegar removes the limescale.', 'Kettles They boil the water quickly.')]
    """
    rows = [
        (number, row)
        for number, passage in enumerate(passages)
        if len(passage.sentences) > 1
        for row, sentence in enumerate(passage.sentences)
        if count_words(sentence) >= _FEWEST_WORDS
    ]
    pairs = ((passages[number].sentences[row], _without(passages[number], row)) for number, row in _drawn(rows, most))
    return [(sentence, rest) for sentence, rest in pairs if count_words(rest) >= _FEWEST_WORDS]


def rare_words_with_passages(passages: Sequence[Document], most: int) -> PassagePairs:
    """Pairs two to five rare words of a sentence, in their order, with the passage: the short queries that people type.

    Words are those of search by words (`opencse.text.scripts.search_words`), so they have no language: in scripts
    without spaces they are pairs of characters. Each word's inverse document frequency is multiplied by a random number
    from 0.5 to 1.5 (a fixed seed), and the highest are taken. Words of one character, and words in only one passage,
    are left out.

    Args:
        passages: the answers; a random sample of `SEARCHED` where there are more.
        most: pairs to make, at most `MOST`.

    Source: our own; docs/results/adapt.md shows what they add.

    Example:
        >>> texts = ["A red kettle whistles.", "Each red valve leaks.", "The valve of the kettle."]
        >>> rare_words_with_passages([Document("", (text,)) for text in texts], most=9)[0]
        ('red valve', 'Each red valve leaks.')
    """
    if len(passages) > SEARCHED:
        passages = random.Random(0).sample(passages, SEARCHED)
    holding = Counter(word for passage in passages for word in set(search_words(" ".join(passage.sentences))))
    weights = {
        word: math.log((len(passages) + 1) / (count + 0.5))
        for word, count in holding.items()
        if count >= _TOO_RARE and len(word) > 1
    }
    draw = random.Random(0)
    rows = [(number, row) for number, passage in enumerate(passages) for row in range(len(passage.sentences))]
    pairs: PassagePairs = []
    for number, row in _drawn(rows, most):
        words = list(dict.fromkeys(word for word in search_words(passages[number].sentences[row]) if word in weights))
        # Rarity times chance, so that not every sentence gives its rarest words.
        score = {word: weights[word] * (0.5 + draw.random()) for word in words}
        key_words = sorted(words, key=lambda word: (-score[word], word))[: draw.randint(*_KEY_WORDS)]
        if len(key_words) >= _KEY_WORDS[0]:
            pairs.append((" ".join(word for word in words if word in key_words), _without(passages[number], -1)))
    return pairs


def _drawn(rows: list[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """At most ``most`` rows in a random order, always the same."""
    return random.Random(0).sample(rows, min(len(rows), most, MOST))


_TITLED = 0.5
"""Share of the documents that must have a title for titles to be trained on."""
MaterialKind = Literal["titles", "neighbours", "sentences"]
"""Titles with their texts, and neighbouring sentences; neighbouring sentences; or sentences alone."""
TrainingRows = list[tuple[str, ...]]


class DocumentSentences:
    """Documents and their sentences, of which a share is held out.

    Example:
        >>> documents = [Document("", ("It boils.", "Steam comes out.")), Document("", ("Snow fell.", "It was cold."))]
        >>> collection = DocumentSentences(documents, holds_out=False)
        >>> collection.owner, collection.kind
        ([0, 0, 1, 1], 'neighbours')

    Args:
        documents: in any order.
        holds_out: hold a share of the sentences out, or none.

    Attributes:
        documents: as given.
        sentences: (n,) rows of one sentence each, document after document.
        owner: (n,) the number of each sentence's document.
        only_titles: how many documents have a title and no text.
        running: whether many documents have several sentences, so that a sentence and the next belong together.
        titled: numbers of the documents whose title and text are both of at least three words.
        kind: what is trained on.
        held: which of the sentences are held out.
    """

    def __init__(self, documents: Sequence[Document], *, holds_out: bool) -> None:
        self.documents = documents
        self.sentences: TrainingRows = [(sentence,) for document in documents for sentence in document.sentences]
        self.owner = [number for number, document in enumerate(documents) for _ in document.sentences]
        self.only_titles = sum(document.only_title for document in documents)
        with_text = len(documents) - self.only_titles
        # Order says something where most documents have several sentences.
        self.running = len(self.sentences) - self.only_titles > 1.5 * with_text
        self.titled = [
            number
            for number, document in enumerate(documents)
            if count_words(document.title) >= _FEWEST_WORDS and count_words(document.body) >= _FEWEST_WORDS
        ]
        many_titles = sum(bool(document.title) for document in documents) >= max(1, _TITLED * with_text)
        self.kind: MaterialKind = "neighbours" if self.running else "sentences"
        if many_titles and len(self.titled) >= 2:
            self.kind = "titles"
        self.held = hold_out(self.texts) if holds_out else hold_nothing_out(self.texts)

    @property
    def texts(self) -> Texts:
        """The sentences; with the documents that they are from, if their order means anything."""
        return Texts([*self.sentences], self.owner if self.running else None, "documents")

    @cached_property
    def documents_held_out(self) -> set[int]:
        """Numbers of the documents that have a held-out sentence."""
        return set(np.asarray(self.owner)[self.held.held].tolist())

    def questions(self) -> tuple[QuestionSet, ...]:
        """Questions about what is held out: titles ask for their texts, else sentences, or parts of titles alone."""
        if self.kind == "titles":
            of_titles = questions_of_pairs(*self._titles)
            if len(of_titles) >= FEWEST:
                return (of_titles,)
        texts = self.texts
        sets = question_sets(texts, self.held)
        if sets or not self.only_titles:
            return sets
        return question_sets(replace(texts, documents=None), self.held)  # titles alone have no order

    def rows(self) -> TrainingRows:
        """Titles with their texts, and neighbouring sentences; sentences alone where there are neither."""
        if self.kind == "sentences":
            return _not_left_out(self.sentences, self.held)
        rows = _not_left_out(*self._titles) if self.kind == "titles" else []
        return rows + self._neighbours() if self.running else rows

    def pairs_by_shared_words(self, most: int, count: Count) -> TrainingRows:
        """At most ``most`` pairs by shared words, without held-out texts and repeats of them.

        Args:
            most: pairs.
            count: called with how many texts have been looked up, and of how many.
        """
        documents, partly_held = self.documents, self.documents_held_out
        held, repeated = self.held.held.tolist(), self.held.repeated.tolist()
        held_texts = {
            normalised(text) for number in partly_held for text in (documents[number].title, documents[number].body)
        }
        questions: list[tuple[int, str]] = []
        answers: list[tuple[int, str]] = []
        for number, document, first in self._documents():
            is_held = number in partly_held
            if not is_held and normalised(document.title) not in held_texts:
                questions.append((number, document.title))
            if not is_held and normalised(document.body) in held_texts:
                continue
            for rows, text in passages_of(document):
                if any(held[first + row] for row in rows):
                    continue
                answers.append((number, " ".join(document.sentences[rows.start : rows.stop]) if is_held else text))
                questions += [(number, document.sentences[row]) for row in rows if not repeated[first + row]]
        questions = [(number, text) for number, text in questions if count_words(text) >= _FEWEST_WORDS]
        return [*pairs_by_shared_words(questions, answers, most, count)]

    def passages(self) -> list[Document]:
        """The passages of which no sentence is held out, or repeats a held-out text.

        Of a long document that is held out in part, they are without its title, which is asked about.
        """
        left_out = self.held.left_out.tolist()
        return [
            Document(
                "" if number in self.documents_held_out else document.title, document.sentences[rows.start : rows.stop]
            )
            for number, document, first in self._documents()
            for rows, _ in passages_of(document)
            if not any(left_out[first + row] for row in rows)
        ]

    @cached_property
    def _titles(self) -> tuple[Texts, HeldOut]:
        """Titles with their texts, held out where any sentence of the document is."""
        documents, titled = self.documents, self.titled
        rows: TrainingRows = [(documents[number].title, documents[number].body) for number in titled]
        is_held = np.array([number in self.documents_held_out for number in titled])
        keys = [tuple(normalised(text) for text in row) for row in rows]
        held_keys = {key for row, out in zip(keys, is_held, strict=True) if out for key in row}
        repeated = np.array([any(key in held_keys for key in row) for row in keys]) & ~is_held
        return Texts(rows, None, "titles"), HeldOut(np.array(titled, dtype=np.int64), is_held, repeated)

    def _neighbours(self) -> TrainingRows:
        """Each sentence with the next of its document, both of at least three words, neither held out."""
        sentences, owner = self.sentences, self.owner
        usable = [
            not out and count_words(sentence) >= _FEWEST_WORDS
            for (sentence,), out in zip(sentences, self.held.left_out.tolist(), strict=True)
        ]
        return [
            (sentences[row][0], sentences[row + 1][0])
            for row in range(len(sentences) - 1)
            if owner[row] == owner[row + 1] and usable[row] and usable[row + 1]
        ]

    def _documents(self) -> Iterator[tuple[int, Document, int]]:
        """Number of each document, the document, and the row of its first sentence."""
        first = 0
        for number, document in enumerate(self.documents):
            yield number, document, first
            first += len(document.sentences)


def _not_left_out(texts: Texts | TrainingRows, held: HeldOut) -> TrainingRows:
    rows = texts.rows if isinstance(texts, Texts) else texts
    return [row for row, out in zip(rows, held.left_out, strict=True) if not out]


_IN_WORDS = {
    "titles": "titles with their texts, and neighbouring sentences",
    "neighbours": "neighbouring sentences",
    "sentences": "sentences without order (few documents have several; a .txt file needs blank lines between them)",
}


@dataclass(frozen=True)
class TrainingMaterial:
    """The training rows and the questions that a collection of documents gives, with pairs or without.

    Attributes:
        kind: ``titles`` (a title and its text, and neighbouring sentences), ``neighbours`` (neighbouring sentences) or
            ``sentences`` (sentences alone).
        rows: to train on: pairs, or sentences alone; none of the questions is in them.
        questions: from the held-out documents or pairs; None where both are too few, or nothing was to be held out.
        many_pairs: whether the user's pairs are enough to hold some out, also where none is.
        facts: a summary in one line, for the user.
    """

    kind: MaterialKind
    rows: TrainingRows
    questions: TextQuestions | None
    facts: str
    many_pairs: bool = False


def material_of(
    documents: Sequence[Document],
    metric: Measure | None = None,
    pairs: Sequence[tuple[str, str]] = (),
    count: Count = uncounted,
    written: Sequence[WrittenRow] = (),
    *,
    asks: bool = True,
) -> TrainingMaterial:
    """Makes training rows of ``documents`` and ``pairs``, and questions from a share of them that is held out.

    Where at least half of the documents with a text have titles, a title and its text are a pair. A title without a
    text is a sentence of its own, which is paired by shared words and with its rare words. Where
    documents have several sentences, a sentence and the next are one. Where there is neither, sentences are trained on
    by themselves. Pairs of a passage with a sentence of it, or with its rare words (`opencse.documents.material`),
    pairs by shared words (`pairs_by_shared_words`), and ``pairs`` (`opencse.documents.given`) are added.

    Args:
        documents: the collection that is searched in the end.
        metric: scores the rank of an answer; nDCG@10 by default.
        pairs: of a question and a text that answers it.
        count: called with how many texts have been looked up by their words, and of how many.
        written: questions of a language model; see `opencse.documents.given`.
        asks: hold documents and pairs out and ask about them; else all are trained on.

    Raises:
        UserError: where nothing is left to train on.

    Example:
        >>> documents = [Document("", (f"First sentence {n} is here.", f"Then comes {n}.")) for n in range(9)]
        >>> material = material_of(documents)
        >>> material.kind, material.rows[0], material.questions
        ('neighbours', ('First sentence 0 is here.', 'Then comes 0.'), None)
    """
    collection = DocumentSentences(documents, holds_out=asks)
    sets = collection.questions()
    if not sets:  # too few for questions: then nothing is held out
        collection = DocumentSentences(documents, holds_out=False)
    rows, facts = _rows_of(collection, count)
    asked = TextQuestions(sets, collection.held, metric=metric or Measure()) if sets else None
    material = TrainingMaterial(collection.kind, rows, asked, facts)
    if written:
        material = _with_written(material, written, collection, metric, asks=asks)
    if pairs:
        bodies = (f"{document.title} {document.body}".strip() for document in documents)
        material = _with_pairs(material, UserPairs.split(pairs, bodies, metric, asks=asks))
    if len(material.rows) < 2:
        raise UserError("the documents give fewer than two pairs or sentences to train on; give more text")
    return material


def _rows_of(collection: DocumentSentences, count: Count) -> tuple[TrainingRows, str]:
    """The rows to train on, and what they are in words."""
    rows, kind = collection.rows(), collection.kind
    note = f" ({collection.only_titles:,} with only a title)" if collection.only_titles else ""
    facts = (
        f"{number_of(len(collection.documents), 'document')}{note}, "
        f"{number_of(len(collection.sentences), 'sentence')}; training on {len(rows):,} {_IN_WORDS[kind]}"
    )
    if kind != "sentences":
        most = len(rows) + collection.only_titles  # these are in no pair yet
        by_words = collection.pairs_by_shared_words(most, count)
        passages = collection.passages()
        by_sentences = sentences_with_passages(passages, most)
        by_rare_words = rare_words_with_passages(passages, most // 2)
        rows += [*by_words, *by_sentences, *by_rare_words]
        facts += (
            f", {number_of(len(by_sentences), 'sentence')} and {number_of(len(by_rare_words), 'short query')} with "
            f"their passages, and {number_of(len(by_words), 'pair')} by shared words"
        )
    return rows, facts


def _with_written(
    material: TrainingMaterial,
    written: Sequence[WrittenRow],
    collection: DocumentSentences,
    metric: Measure | None,
    *,
    asks: bool,
) -> TrainingMaterial:
    """Adds written questions to ``material``; those about its held-out documents are held out too."""
    held = [] if material.questions is None else sorted(collection.documents_held_out)
    rows, questions, words = add_written(
        material.rows, material.questions, written, collection.documents, held, metric, asks=asks
    )
    return replace(material, rows=rows, questions=questions, facts=f"{material.facts}, and {words}")


def _with_pairs(material: TrainingMaterial, pairs: UserPairs) -> TrainingMaterial:
    """Adds the user's pairs to ``material``."""
    rows, questions, words = pairs.added_to(material.rows, material.questions)
    return replace(
        material, rows=rows, questions=questions, facts=f"{material.facts}, and {words}", many_pairs=pairs.many
    )
