"""Adapting an encoder to somebody's documents: what the text allows to train on and to ask about, and the run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from opencse.encoder.locate import BUILTIN
from opencse.errors import UserError
from opencse.progress import Progress
from opencse.runs.job import TrainJob
from opencse.selection import probes
from opencse.selection.chosen import AUTO, TEXT, asking
from opencse.selection.finding import Measure
from opencse.selection.holdout import HeldOut, hold_out, normalised
from opencse.selection.own_text import FEWEST, OwnText, questions
from opencse.selection.score import Selector
from opencse.text.documents import Document, find_corpus, read_documents
from opencse.text.given import GivenTexts
from opencse.text.readers import Texts

RECIPE = "adapt"
LOOSE = "sentences"
"""The recipe's preset for texts without any order: nothing but the sentence itself is a positive."""
_TITLED = 0.5
"""Share of the documents that must have a title for titles to be trained on."""
_FEWEST_WORDS = 3
Kind = Literal["titles", "neighbours", "sentences"]


@dataclass(frozen=True)
class Material:
    """What a collection of documents gives.

    Attributes:
        kind: ``titles`` (a title and its text, and neighbouring sentences), ``neighbours`` (neighbouring sentences) or
            ``sentences`` (sentences alone).
        rows: to train on: pairs, or sentences alone; nothing of what is asked about is in them.
        asked: questions from the documents held out; None where the collection is too small.
        facts: what was found, in one line.
    """

    kind: Kind
    rows: list[tuple[str, ...]]
    asked: OwnText | None
    facts: str


def material_of(documents: Sequence[Document], by: Measure | None = None) -> Material:
    """What ``documents`` allow to train on and to ask about; a share of them is held out for the questions.

    Where at least half of the documents have titles, a title and its text are a pair. Where documents have several
    sentences, a sentence and the next are one. Where there is neither, sentences are trained on by themselves.

    Raises:
        UserError: where nothing is left to train on.
    """
    sentences = [(sentence,) for document in documents for sentence in document.sentences]
    owner = [number for number, document in enumerate(documents) for _ in document.sentences]
    running = len(sentences) > 1.5 * len(documents)
    texts = Texts([*sentences], owner if running else None, "documents")
    held = hold_out(texts)
    titles = _titles(documents, owner, held)
    titled = sum(bool(document.title) for document in documents) >= _TITLED * len(documents)
    of_titles = probes.pairs(*titles) if titled and titles else None
    asked = (of_titles,) if of_titles is not None and len(of_titles) >= FEWEST else questions(texts, held)
    if not asked:  # too small to ask about: then nothing is held out
        held = HeldOut(held.units, np.zeros_like(held.held), np.zeros_like(held.held))
        titles = _titles(documents, owner, held)
    rows: list[tuple[str, ...]] = []
    if titled and titles:
        rows += [row for row, out in zip(titles[0].rows, titles[1].left_out, strict=True) if not out]
    if running:
        rows += _neighbours(sentences, owner, held)
    kind: Kind = "titles" if titled and titles else "neighbours" if running else "sentences"
    if kind == "sentences":
        rows = [row for row, out in zip(sentences, held.left_out, strict=True) if not out]
    if len(rows) < 2:
        raise UserError("the documents leave nothing to train on: no two sentences beside what is held out")
    what = {"titles": "titles with their texts, and neighbouring sentences", "neighbours": "neighbouring sentences"}
    facts = (
        f"{len(documents):,} documents, {len(sentences):,} sentences; trained on {len(rows):,} "
        f"{what.get(kind, 'loose sentences')}"
    )
    return Material(kind, rows, OwnText(asked, held, by or Measure()) if asked else None, facts)


def _titles(documents: Sequence[Document], owner: Sequence[int], held: HeldOut) -> tuple[Texts, HeldOut] | None:
    """Titles with their texts, and which of them are held out: those of documents of which any part is."""
    of_held = set(np.asarray(owner)[held.held].tolist())
    usable = [
        number
        for number, document in enumerate(documents)
        if len(document.title.split()) >= _FEWEST_WORDS and len(document.body.split()) >= _FEWEST_WORDS
    ]
    if len(usable) < 2:
        return None
    rows: list[tuple[str, ...]] = [(documents[number].title, documents[number].body) for number in usable]
    is_held = np.array([number in of_held for number in usable])
    keys = [tuple(normalised(text) for text in row) for row in rows]
    asked = {key for row, out in zip(keys, is_held, strict=True) if out for key in row}
    repeated = np.array([any(key in asked for key in row) for row in keys]) & ~is_held
    return Texts(rows, None, "titles"), HeldOut(np.array(usable, dtype=np.int64), is_held, repeated)


def _neighbours(sentences: Sequence[tuple[str, ...]], owner: Sequence[int], held: HeldOut) -> list[tuple[str, ...]]:
    """A sentence and the next of its document, both of some words, neither held out."""
    usable = [
        not out and len(row[0].split()) >= _FEWEST_WORDS
        for row, out in zip(sentences, held.left_out.tolist(), strict=True)
    ]
    return [
        (sentences[row][0], sentences[row + 1][0])
        for row in range(len(sentences) - 1)
        if owner[row] == owner[row + 1] and usable[row] and usable[row + 1]
    ]


def adaptation_job(
    corpus: str | Path,
    *,
    model: str = BUILTIN,
    recipe: str = RECIPE,
    settings: Iterable[str] = (),
    dev: str | Path | None = AUTO,
    metric: str | None = None,
    device: str | None = None,
    trust_remote_code: bool = False,
    progress: Progress,
) -> TrainJob:
    """The job of `opencse.adapt`, which has its arguments; ``progress`` hears what the documents allow."""
    path = find_corpus(corpus)
    material = material_of(read_documents(path), None if metric is None else Measure.parse(metric))
    progress.say(f"documents  {path}: {material.facts}")
    selector: str | Path | Selector | None = dev
    if dev is not None and str(dev) in (AUTO, TEXT):
        if material.asked is None and str(dev) == TEXT:
            raise UserError(
                f"{path}: too small to hold documents out and ask {FEWEST} questions about them; choose by something "
                "else: --dev with graded pairs, or with a folder of queries and documents"
            )
        selector = "sample" if material.asked is None else asking(material.asked)
    own = str(recipe).split(":")
    preset = LOOSE if material.kind == "sentences" and own[0] == RECIPE and LOOSE not in own else None
    return TrainJob(
        GivenTexts(tuple(material.rows), f"{path}, {material.kind}"),
        recipe,
        model,
        preset,
        tuple(settings),
        selector,
        device,
        trust_remote_code,
        metric=metric if selector == dev else None,
    )
