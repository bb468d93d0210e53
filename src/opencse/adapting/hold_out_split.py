"""A collection of documents with a share held out: the training rows of the rest, and questions about the share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from opencse.adapting.holdout import HeldOut, hold_nothing_out, hold_out
from opencse.adapting.passage_pairs import Passage
from opencse.adapting.question_sets import QuestionSet
from opencse.adapting.question_sets import pairs as questions_of_pairs
from opencse.adapting.shared_words import pairs_by_shared_words, passages_of
from opencse.adapting.text_questions import FEWEST, question_sets
from opencse.progress import Count
from opencse.text.documents import Document
from opencse.text.readers import Texts
from opencse.text.scripts import count_words, normalised

_TITLED = 0.5
"""Share of the documents that must have a title for titles to be trained on."""
_FEWEST_WORDS = 3
MaterialKind = Literal["titles", "neighbours", "sentences"]
"""Titles with their texts, and neighbouring sentences; neighbouring sentences; or sentences alone."""
TrainingRows = list[tuple[str, ...]]


class DocumentSentences:
    """Documents and their sentences.

    Example:
        >>> documents = [Document("", ("It boils.", "Steam comes out.")), Document("", ("Snow fell.", "It was cold."))]
        >>> collection = DocumentSentences(documents)
        >>> collection.owner, collection.kind
        ([0, 0, 1, 1], 'neighbours')

    Args:
        documents: in any order.

    Attributes:
        documents: as given.
        sentences: (n,) rows of one sentence each, document after document.
        owner: (n,) the number of each sentence's document.
        only_titles: how many documents have a title and no text.
        running: whether many documents have several sentences, so that a sentence and the next belong together.
        titled: numbers of the documents whose title and text are both of at least three words.
        kind: what is trained on.
    """

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = documents
        self.sentences: TrainingRows = [(sentence,) for document in documents for sentence in document.sentences]
        self.owner = [number for number, document in enumerate(documents) for _ in document.sentences]
        self.only_titles = sum(document.only_title for document in documents)
        with_text = len(documents) - self.only_titles
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

    @property
    def texts(self) -> Texts:
        """The sentences; with the documents that they are from, if their order means anything."""
        return Texts([*self.sentences], self.owner if self.running else None, "documents")


@dataclass(frozen=True)
class HoldOutSplit:
    """A collection, and which of its sentences are held out.

    Attributes:
        collection: of all documents.
        held: of its sentences.
    """

    collection: DocumentSentences
    held: HeldOut

    @classmethod
    def of(cls, collection: DocumentSentences, *, holds_out: bool) -> HoldOutSplit:
        """Holds a share of the sentences out, or none."""
        return cls(collection, hold_out(collection.texts) if holds_out else hold_nothing_out(collection.texts))

    @cached_property
    def documents_held_out(self) -> set[int]:
        """Numbers of the documents that have a held-out sentence."""
        return set(np.asarray(self.collection.owner)[self.held.held].tolist())

    def questions(self) -> tuple[QuestionSet, ...]:
        """Questions about what is held out: titles ask for their texts, else sentences, or parts of titles alone."""
        if self.collection.kind == "titles":
            of_titles = questions_of_pairs(*self._titles)
            if len(of_titles) >= FEWEST:
                return (of_titles,)
        texts = self.collection.texts
        sets = question_sets(texts, self.held)
        if sets or not self.collection.only_titles:
            return sets
        return question_sets(replace(texts, documents=None), self.held)  # titles alone have no order

    def rows(self) -> TrainingRows:
        """Titles with their texts, and neighbouring sentences; sentences alone where there are neither."""
        collection = self.collection
        if collection.kind == "sentences":
            return _not_left_out(collection.sentences, self.held)
        rows = _not_left_out(*self._titles) if collection.kind == "titles" else []
        return rows + self._neighbours() if collection.running else rows

    def pairs_by_shared_words(self, most: int, count: Count | None) -> TrainingRows:
        """At most ``most`` pairs by shared words, without held-out texts and repeats of them.

        Args:
            most: pairs.
            count: called with how many texts have been looked up, and of how many.
        """
        documents, partly_held = self.collection.documents, self.documents_held_out
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

    def passages(self) -> list[Passage]:
        """The passages of which no sentence is held out, or repeats a held-out text.

        Of a long document that is held out in part, they are without its title, which is asked about.
        """
        left_out = self.held.left_out.tolist()
        return [
            Passage(
                "" if number in self.documents_held_out else document.title, document.sentences[rows.start : rows.stop]
            )
            for number, document, first in self._documents()
            for rows, _ in passages_of(document)
            if not any(left_out[first + row] for row in rows)
        ]

    @cached_property
    def _titles(self) -> tuple[Texts, HeldOut]:
        """Titles with their texts, held out where any sentence of the document is."""
        documents, titled = self.collection.documents, self.collection.titled
        rows: TrainingRows = [(documents[number].title, documents[number].body) for number in titled]
        is_held = np.array([number in self.documents_held_out for number in titled])
        keys = [tuple(normalised(text) for text in row) for row in rows]
        held_keys = {key for row, out in zip(keys, is_held, strict=True) if out for key in row}
        repeated = np.array([any(key in held_keys for key in row) for row in keys]) & ~is_held
        return Texts(rows, None, "titles"), HeldOut(np.array(titled, dtype=np.int64), is_held, repeated)

    def _neighbours(self) -> TrainingRows:
        """Each sentence with the next of its document, both of at least three words, neither held out."""
        sentences, owner = self.collection.sentences, self.collection.owner
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
        for number, document in enumerate(self.collection.documents):
            yield number, document, first
            first += len(document.sentences)


def _not_left_out(texts: Texts | TrainingRows, held: HeldOut) -> TrainingRows:
    rows = texts.rows if isinstance(texts, Texts) else texts
    return [row for row, out in zip(rows, held.left_out, strict=True) if not out]
