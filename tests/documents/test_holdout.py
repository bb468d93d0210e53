"""What is held out: by content alone, whole documents, and nothing of it left to train on."""

from __future__ import annotations

import random
import re

import numpy as np

from opencse.documents.questions import PASSAGE, HeldOut, hold_out
from opencse.text.readers import Texts
from opencse.text.scripts import normalised


def running(documents: int = 200, sentences: int = 5) -> Texts:
    rows: list[tuple[str, ...]] = [
        (f"Document {d} says thing number {s} of it.",) for d in range(documents) for s in range(sentences)
    ]
    return Texts(rows, [d for d in range(documents) for _ in range(sentences)], "text")


def asked(texts: Texts, held: HeldOut) -> set[str]:
    return {text for row, out in zip(texts.rows, held.held, strict=True) if out for text in row}


def test_whole_documents_about_the_share() -> None:
    texts = running()
    held = hold_out(texts, 0.2)
    by_document = held.held.reshape(200, 5)
    assert (by_document.all(axis=1) | ~by_document.any(axis=1)).all()
    assert 20 <= by_document.all(axis=1).sum() <= 60


def test_the_choice_depends_on_content_and_not_on_order_or_company() -> None:
    texts = running()
    order = random.Random(1).sample(range(200), 150)
    rows = [texts.rows[5 * d + s] for d in order for s in range(5)]
    other = Texts(rows, [n for n in range(150) for _ in range(5)], "other")
    there = asked(texts, hold_out(texts, 0.2))
    assert asked(other, hold_out(other, 0.2)) == {row[0] for row in rows} & there
    assert there


def test_sentences_that_occur_in_held_out_documents_are_not_trained_on() -> None:
    """In another letter case or punctuation too."""
    plain = running()
    which = int(np.flatnonzero(hold_out(plain, 0.2).held)[0])
    copy = re.sub(r"\.", " !", plain.rows[which][0].upper())
    assert plain.documents is not None
    texts = Texts([*plain.rows, (copy,), ("Something else altogether.",)], [*plain.documents, 999, 999], "text")
    held = hold_out(texts, 0.2)
    there = {normalised(text) for text in asked(texts, held)}
    kept = [row for row, out in zip(texts.rows, held.left_out, strict=True) if not out]
    assert not any(normalised(row[0]) in there for row in kept)
    assert held.held[-2] or held.repeated[-2]


def test_pairs_with_a_common_text_are_held_out_together() -> None:
    rows: list[tuple[str, ...]] = [(f"question {n}", f"answer {n // 3}") for n in range(300)]
    held = hold_out(Texts(rows, None, "pairs"), 0.2)
    groups = held.held.reshape(100, 3)
    assert (groups.all(axis=1) | ~groups.any(axis=1)).all()
    assert groups.any()
    assert not held.repeated.any()


def test_a_book_is_held_out_in_passages() -> None:
    rows: list[tuple[str, ...]] = [(f"Sentence {n} of a long book.",) for n in range(60 * PASSAGE)]
    texts = Texts(rows, [0] * (30 * PASSAGE) + [1] * (30 * PASSAGE), "books")
    held = hold_out(texts, 0.2)
    passages = held.held.reshape(60, PASSAGE)
    assert (passages.all(axis=1) | ~passages.any(axis=1)).all()
    assert 0 < passages.all(axis=1).sum() < 30
