"""Makes training rows and held-out questions from documents and the user's pairs of question and answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from opencse.adapting.holdout import HeldOut, hold_nothing_out, hold_out
from opencse.adapting.passage_pairs import Passage, rare_words_with_passages, sentences_with_passages
from opencse.adapting.question_sets import pairs as questions_of_pairs
from opencse.adapting.shared_words import pairs_by_shared_words, passages_of
from opencse.adapting.text_questions import FEWEST, TextQuestions, question_sets
from opencse.adapting.user_pairs import UserPairs
from opencse.adapting.written_questions import WrittenRow, add_written
from opencse.errors import UserError
from opencse.numerals import number_of
from opencse.progress import Count
from opencse.ranking import Measure
from opencse.text.documents import Document
from opencse.text.readers import Texts
from opencse.text.scripts import count_words, normalised

_TITLED = 0.5
"""Share of the documents that must have a title for titles to be trained on."""
_FEWEST_WORDS = 3
MaterialKind = Literal["titles", "neighbours", "sentences"]
TrainingRows = list[tuple[str, ...]]


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
    count: Count | None = None,
    written: Sequence[WrittenRow] = (),
    *,
    asks: bool = True,
) -> TrainingMaterial:
    """Makes training rows of ``documents`` and ``pairs``, and questions from a share of them that is held out.

    Where at least half of the documents with a text have titles, a title and its text are a pair. A title without a
    text is a sentence of its own: it is a candidate, and may be paired by shared words, but is no pair by itself. Where
    documents have several sentences, a sentence and the next are one. Where there is neither, sentences are trained on
    by themselves. Pairs of a passage with a sentence of it, or with its rare words (`opencse.adapting.passage_pairs`),
    pairs by shared words (`pairs_by_shared_words`), and ``pairs`` (`opencse.adapting.user_pairs`) are added.

    Args:
        documents: the collection that is searched in the end.
        metric: scores the rank of an answer; nDCG@10 by default.
        pairs: of a question and a text that answers it.
        count: called with how many texts have been looked up by their words, and of how many.
        written: questions of a language model; see `opencse.adapting.written_questions`.
        asks: hold documents and pairs out and ask about them; else all are trained on.

    Raises:
        UserError: where nothing is left to train on.

    Example:
        >>> documents = [Document("", (f"First sentence {n} is here.", f"Then comes {n}.")) for n in range(9)]
        >>> material = material_of(documents)
        >>> material.kind, material.rows[0], material.questions
        ('neighbours', ('First sentence 0 is here.', 'Then comes 0.'), None)
    """
    material = _of_documents(documents, metric, count, asks=asks)
    if written:
        material = _with_written(material, written, documents, metric, asks=asks)
    if pairs:
        bodies = (f"{document.title} {document.body}".strip() for document in documents)
        material = _with_pairs(material, UserPairs.split(pairs, bodies, metric, asks=asks))
    if len(material.rows) < 2:
        raise UserError("the documents give fewer than two pairs or sentences to train on; give more text")
    return material


def _of_documents(
    documents: Sequence[Document], metric: Measure | None, count: Count | None, *, asks: bool
) -> TrainingMaterial:
    sentences = [(sentence,) for document in documents for sentence in document.sentences]
    owner = [number for number, document in enumerate(documents) for _ in document.sentences]
    only_titles = sum(document.only_title for document in documents)
    running = len(sentences) - only_titles > 1.5 * (len(documents) - only_titles)
    texts = Texts([*sentences], owner if running else None, "documents")
    held = hold_out(texts) if asks else hold_nothing_out(texts)
    titles = _titles(documents, owner, held)
    titled = sum(bool(document.title) for document in documents) >= max(1, _TITLED * (len(documents) - only_titles))
    of_titles = questions_of_pairs(*titles) if titled and titles else None
    sets = (of_titles,) if of_titles is not None and len(of_titles) >= FEWEST else question_sets(texts, held)
    if not sets:  # too few for questions: then nothing is held out
        held = hold_nothing_out(texts)
        titles = _titles(documents, owner, held)
    rows: TrainingRows = []
    if titled and titles:
        rows += [row for row, out in zip(titles[0].rows, titles[1].left_out, strict=True) if not out]
    if running:
        rows += _neighbours(sentences, owner, held)
    kind: MaterialKind = "titles" if titled and titles else "neighbours" if running else "sentences"
    if kind == "sentences":
        rows = [row for row, out in zip(sentences, held.left_out, strict=True) if not out]
    names = {
        "titles": "titles with their texts, and neighbouring sentences",
        "neighbours": "neighbouring sentences",
        "sentences": "sentences without order (few documents have several; a .txt file needs blank lines between them)",
    }
    note = f" ({only_titles:,} with only a title)" if only_titles else ""
    facts = (
        f"{number_of(len(documents), 'document')}{note}, {number_of(len(sentences), 'sentence')}; training on "
        f"{len(rows):,} {names[kind]}"
    )
    if kind != "sentences":
        most = len(rows)
        by_words = _shared_words(documents, owner, held, most, count)
        rows += by_words
        passages = _passages(documents, owner, held)
        by_sentences = sentences_with_passages(passages, most)
        by_rare_words = rare_words_with_passages(passages, most // 2)
        rows += [*by_sentences, *by_rare_words]
        short = number_of(len(by_rare_words), "short query")
        facts += f", {number_of(len(by_sentences), 'sentence')} and {short} with their passages"
        facts += f", and {number_of(len(by_words), 'pair')} by shared words"
    questions = TextQuestions(sets, held, metric or Measure()) if sets else None
    return TrainingMaterial(kind, rows, questions, facts)


def _with_written(
    material: TrainingMaterial,
    written: Sequence[WrittenRow],
    documents: Sequence[Document],
    metric: Measure | None,
    *,
    asks: bool,
) -> TrainingMaterial:
    """Adds written questions to ``material``; those about its held-out documents are held out too."""
    owner = [number for number, document in enumerate(documents) for _ in document.sentences]
    held = [] if material.questions is None else sorted(_documents_held_out(owner, material.questions.held))
    rows, questions, words = add_written(material.rows, material.questions, written, documents, held, metric, asks=asks)
    return replace(material, rows=rows, questions=questions, facts=f"{material.facts}, and {words}")


def _with_pairs(material: TrainingMaterial, pairs: UserPairs) -> TrainingMaterial:
    """Adds the user's pairs to ``material``."""
    rows, questions, words = pairs.added_to(material.rows, material.questions)
    return replace(
        material, rows=rows, questions=questions, facts=f"{material.facts}, and {words}", many_pairs=pairs.many
    )


def _titles(documents: Sequence[Document], owner: Sequence[int], held: HeldOut) -> tuple[Texts, HeldOut] | None:
    """Titles with their texts, held out where any sentence of the document is."""
    of_held = _documents_held_out(owner, held)
    usable = [
        number
        for number, document in enumerate(documents)
        if count_words(document.title) >= _FEWEST_WORDS and count_words(document.body) >= _FEWEST_WORDS
    ]
    if len(usable) < 2:
        return None
    rows: TrainingRows = [(documents[number].title, documents[number].body) for number in usable]
    is_held = np.array([number in of_held for number in usable])
    keys = [tuple(normalised(text) for text in row) for row in rows]
    held_keys = {key for row, out in zip(keys, is_held, strict=True) if out for key in row}
    repeated = np.array([any(key in held_keys for key in row) for row in keys]) & ~is_held
    return Texts(rows, None, "titles"), HeldOut(np.array(usable, dtype=np.int64), is_held, repeated)


def _shared_words(
    documents: Sequence[Document], owner: Sequence[int], held: HeldOut, most: int, count: Count | None
) -> TrainingRows:
    """At most ``most`` pairs by shared words; held-out texts, or repeats of them, are neither question nor answer."""
    out = held.held.tolist()
    touched = _documents_held_out(owner, held)
    held_texts = {normalised(text) for number in touched for text in (documents[number].title, documents[number].body)}
    questions: list[tuple[int, str]] = []
    answers: list[tuple[int, str]] = []
    first = 0
    for number, document in enumerate(documents):
        if number not in touched and normalised(document.title) not in held_texts:
            questions.append((number, document.title))
        repeats = number not in touched and normalised(document.body) in held_texts
        for rows, text in passages_of(document):
            if repeats or any(out[first + row] for row in rows):
                continue
            answers.append(
                (number, " ".join(document.sentences[rows.start : rows.stop]) if number in touched else text)
            )
            questions += [(number, document.sentences[row]) for row in rows if not held.repeated[first + row]]
        first += len(document.sentences)
    questions = [(number, text) for number, text in questions if count_words(text) >= _FEWEST_WORDS]
    return [*pairs_by_shared_words(questions, answers, most, count)]


def _passages(documents: Sequence[Document], owner: Sequence[int], held: HeldOut) -> list[Passage]:
    """The passages of which no sentence is held out, or repeats a held-out text.

    Of a long document that is held out in part, they are without its title, which is asked about.
    """
    out = held.left_out.tolist()
    touched = _documents_held_out(owner, held)
    passages: list[Passage] = []
    first = 0
    for number, document in enumerate(documents):
        passages += [
            Passage("" if number in touched else document.title, document.sentences[rows.start : rows.stop])
            for rows, _ in passages_of(document)
            if not any(out[first + row] for row in rows)
        ]
        first += len(document.sentences)
    return passages


def _documents_held_out(owner: Sequence[int], held: HeldOut) -> set[int]:
    """Numbers of the documents that have a held-out sentence."""
    return set(np.asarray(owner)[held.held].tolist())


def _neighbours(sentences: Sequence[tuple[str, ...]], owner: Sequence[int], held: HeldOut) -> list[tuple[str, ...]]:
    """Each sentence with the next of its document, both of at least three words, neither held out."""
    usable = [
        not out and count_words(row[0]) >= _FEWEST_WORDS
        for row, out in zip(sentences, held.left_out.tolist(), strict=True)
    ]
    return [
        (sentences[row][0], sentences[row + 1][0])
        for row in range(len(sentences) - 1)
        if owner[row] == owner[row + 1] and usable[row] and usable[row + 1]
    ]
