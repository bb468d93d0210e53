"""What is held out of a collection of documents, and what the rest gives to train on."""

from __future__ import annotations

import numpy as np
import pytest

from opencse.adapting.hold_out_split import DocumentSentences, HoldOutSplit, MaterialKind
from opencse.adapting.holdout import HeldOut
from opencse.text.documents import Document

PAIRED = (
    Document("Descaling a steel kettle", ("Vinegar removes the scale.", "Rinse it well after.")),
    Document("Snow on the hills", ("Snow fell on the hills.", "Children played in it.")),
)


@pytest.mark.parametrize(
    ("documents", "kind"),
    [
        (PAIRED, "titles"),
        ([Document("", one.sentences) for one in PAIRED], "neighbours"),
        ([Document("", (sentence,)) for one in PAIRED for sentence in one.sentences], "sentences"),
        ([PAIRED[0], Document("Snow", ("Snow fell on the hills.", "Children played in it."))], "neighbours"),
    ],
)
def test_what_documents_have_decides_what_is_trained_on(documents: list[Document], kind: MaterialKind) -> None:
    assert DocumentSentences(documents).kind == kind


def test_a_held_out_sentence_is_in_no_row() -> None:
    first = np.array([True, False, False, False])
    split = HoldOutSplit(DocumentSentences(PAIRED), HeldOut(np.arange(4), first, np.zeros(4, dtype=bool)))
    assert split.documents_held_out == {0}
    assert split.rows() == [(PAIRED[1].title, PAIRED[1].body), PAIRED[1].sentences]
    assert [passage.sentences for passage in split.passages()] == [PAIRED[1].sentences]
