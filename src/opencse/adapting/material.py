"""What documents, and pairs where there are some, give to train on and to ask about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from opencse.adapting import question_sets as probes
from opencse.adapting.holdout import HeldOut, hold_out, normalised
from opencse.adapting.shared_words import by_shared_words, passages_of
from opencse.adapting.text_questions import FEWEST, TextQuestions, own_text, questions
from opencse.errors import UserError
from opencse.progress import Count
from opencse.ranking import Measure
from opencse.text.documents import Document
from opencse.text.readers import Texts
from opencse.text.scripts import count_words

TIMES = 10
"""How often a given pair is trained on for each time that a pair of the documents is, at most."""
_TITLED = 0.5
"""Share of the documents that must have a title for titles to be trained on."""
_FEWEST_WORDS = 3
Kind = Literal["titles", "neighbours", "sentences"]
Rows = list[tuple[str, ...]]
Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Material:
    """What a collection of documents gives, with pairs or without.

    Attributes:
        kind: ``titles`` (a title and its text, and neighbouring sentences), ``neighbours`` (neighbouring sentences) or
            ``sentences`` (sentences alone).
        rows: to train on: pairs, or sentences alone; no question that is asked is in them.
        asked: questions from the documents or pairs held out; None where both are too few.
        facts: what was found, in one line.
    """

    kind: Kind
    rows: Rows
    asked: TextQuestions | None
    facts: str


def material_of(
    documents: Sequence[Document],
    by: Measure | None = None,
    pairs: Sequence[tuple[str, str]] = (),
    count: Count | None = None,
) -> Material:
    """What ``documents`` allow to train on and to ask about; a share of them is held out for the questions.

    Where at least half of the documents with a text have titles, a title and its text are a pair. A title without a
    text is a sentence of its own: it is searched among, and paired by shared words, but it is no pair by itself. Where
    documents have several sentences, a sentence and the next are one. Where there is neither, sentences are trained on
    by themselves. Pairs by shared words (`by_shared_words`) are added, at most as many, where no ``pairs`` are
    given.

    Args:
        documents: what is searched in the end.
        by: how answers are scored; nDCG@10 by default.
        pairs: a question and what answers it, each. They are repeated up to `TIMES` times, until they are as many as
            the pairs of the documents. Where they are enough, a share of them is held out and asked about, among the
            documents, of which nothing is held out then. Loose sentences are not trained on beside them.
        count: told how many texts have been looked up by their words, and of how many.

    Raises:
        UserError: where nothing is left to train on.
    """
    told = (f"{document.title} {document.body}".strip() for document in documents)
    of_pairs = own_text(Texts([*pairs], None, "pairs"), by, told) if pairs else None
    found = _of_documents(documents, by, ask=of_pairs is None, shared=not pairs, count=count)
    if pairs:
        found = _beside_pairs(found, pairs, of_pairs)
    if len(found.rows) < 2:
        raise UserError("the documents leave nothing to train on: fewer than two pairs or sentences are left of them")
    return found


def _of_documents(
    documents: Sequence[Document], by: Measure | None, *, ask: bool, shared: bool, count: Count | None
) -> Material:
    sentences = [(sentence,) for document in documents for sentence in document.sentences]
    owner = [number for number, document in enumerate(documents) for _ in document.sentences]
    alone = sum(document.only_title for document in documents)
    running = len(sentences) - alone > 1.5 * (len(documents) - alone)
    texts = Texts([*sentences], owner if running else None, "documents")
    held = hold_out(texts)
    titles = _titles(documents, owner, held)
    titled = sum(bool(document.title) for document in documents) >= max(1, _TITLED * (len(documents) - alone))
    of_titles = probes.pairs(*titles) if titled and titles else None
    asked = (of_titles,) if of_titles is not None and len(of_titles) >= FEWEST else questions(texts, held)
    if not asked or not ask:  # too small to ask about, or asked otherwise: then nothing is held out
        asked = ()
        held = HeldOut(held.units, np.zeros_like(held.held), np.zeros_like(held.held))
        titles = _titles(documents, owner, held)
    rows: Rows = []
    if titled and titles:
        rows += [row for row, out in zip(titles[0].rows, titles[1].left_out, strict=True) if not out]
    if running:
        rows += _neighbours(sentences, owner, held)
    kind: Kind = "titles" if titled and titles else "neighbours" if running else "sentences"
    if kind == "sentences":
        rows = [row for row, out in zip(sentences, held.left_out, strict=True) if not out]
    what = {"titles": "titles with their texts, and neighbouring sentences", "neighbours": "neighbouring sentences"}
    of_titles_alone = f" ({alone:,} with a title alone)" if alone else ""
    facts = (
        f"{len(documents):,} documents{of_titles_alone}, {len(sentences):,} sentences; trained on {len(rows):,} "
        f"{what.get(kind, 'loose sentences')}"
    )
    if shared and kind != "sentences":
        by_words = _shared_words(documents, owner, held, len(rows), count)
        rows += by_words
        facts += f", and {len(by_words):,} pairs by shared words"
    return Material(kind, rows, TextQuestions(asked, held, by or Measure()) if asked else None, facts)


def _beside_pairs(found: Material, pairs: Pairs, asked: TextQuestions | None) -> Material:
    """``found`` with given pairs; ``asked`` are questions of theirs, None where they are too few for any."""
    held_out = np.zeros(len(pairs), dtype=bool) if asked is None or asked.left_out is None else asked.left_out
    asked = found.asked if asked is None else replace(asked, left_out=None)
    told = {normalised(query) for probe in asked.probes for query in probe.queries} if asked is not None else set()

    def unasked(row: tuple[str, ...]) -> bool:
        return not any(normalised(text) in told for text in row)

    given: Rows = [row for row, out in zip(pairs, held_out, strict=True) if not out and unasked(row)]
    if found.kind == "sentences":
        rows, facts = [], f"{found.facts.partition(';')[0]}; trained on"
    else:
        rows, facts = [row for row in found.rows if unasked(row)], f"{found.facts}, and"
    times = min(TIMES, max(1, len(rows) // len(given))) if rows and given else TIMES
    facts += f" {len(given):,} given pairs" + (f", {times} times each" if times > 1 else "")
    return Material(found.kind, rows + given * times, asked, facts)


def _titles(documents: Sequence[Document], owner: Sequence[int], held: HeldOut) -> tuple[Texts, HeldOut] | None:
    """Titles with their texts, and which of them are held out: those of documents of which any part is."""
    of_held = _touched(owner, held)
    usable = [
        number
        for number, document in enumerate(documents)
        if count_words(document.title) >= _FEWEST_WORDS and count_words(document.body) >= _FEWEST_WORDS
    ]
    if len(usable) < 2:
        return None
    rows: Rows = [(documents[number].title, documents[number].body) for number in usable]
    is_held = np.array([number in of_held for number in usable])
    keys = [tuple(normalised(text) for text in row) for row in rows]
    asked = {key for row, out in zip(keys, is_held, strict=True) if out for key in row}
    repeated = np.array([any(key in asked for key in row) for row in keys]) & ~is_held
    return Texts(rows, None, "titles"), HeldOut(np.array(usable, dtype=np.int64), is_held, repeated)


def _shared_words(
    documents: Sequence[Document], owner: Sequence[int], held: HeldOut, most: int, count: Count | None
) -> Rows:
    """At most ``most`` pairs by shared words; what is held out, or repeats it, is neither question nor answer."""
    out = held.held.tolist()
    touched = _touched(owner, held)
    told = {normalised(text) for number in touched for text in (documents[number].title, documents[number].body)}
    asked: list[tuple[int, str]] = []
    answers: list[tuple[int, str]] = []
    first = 0
    for number, document in enumerate(documents):
        if number not in touched and normalised(document.title) not in told:
            asked.append((number, document.title))
        repeats = number not in touched and normalised(document.body) in told
        for rows, text in passages_of(document):
            if repeats or any(out[first + row] for row in rows):
                continue
            answers.append((number, text))
            asked += [(number, document.sentences[row]) for row in rows if not held.repeated[first + row]]
        first += len(document.sentences)
    asked = [(number, text) for number, text in asked if count_words(text) >= _FEWEST_WORDS]
    return [*by_shared_words(asked, answers, most, count)]


def _touched(owner: Sequence[int], held: HeldOut) -> set[int]:
    """The documents of which any sentence is held out."""
    return set(np.asarray(owner)[held.held].tolist())


def _neighbours(sentences: Sequence[tuple[str, ...]], owner: Sequence[int], held: HeldOut) -> list[tuple[str, ...]]:
    """A sentence and the next of its document, both of some words, neither held out."""
    usable = [
        not out and count_words(row[0]) >= _FEWEST_WORDS
        for row, out in zip(sentences, held.left_out.tolist(), strict=True)
    ]
    return [
        (sentences[row][0], sentences[row + 1][0])
        for row in range(len(sentences) - 1)
        if owner[row] == owner[row + 1] and usable[row] and usable[row + 1]
    ]
