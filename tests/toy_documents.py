"""Documents of drawn words, corpora of a few documents, and the pairs that a view makes of their rows."""

from __future__ import annotations

import random

import numpy as np

from opencse.objective.views.base import View
from opencse.text.corpus import Corpus, CorpusFacts
from opencse.text.documents import Document

DOCUMENTS = [0, 0, 0, 0, 0, 1, 2, 2, 3, 3, 3]
"""The document of each row: rows 0-4 are of the first, 5 is the second, 6-7 are the third, 8-10 the fourth."""


def corpus_of(documents: list[int], width: int = 1) -> Corpus:
    """A corpus with these documents; the ids of each text are its number."""
    texts = len(documents) * width
    facts = CorpusFacts("toy.txt", "", len(documents), width, texts, 0, 0, len(set(documents)), 8)
    keys = np.arange(texts, dtype=np.int64).reshape(-1, width)
    return Corpus(np.arange(texts), np.arange(texts + 1), keys, np.asarray(documents, dtype=np.int32), facts)


def pairs_of(view: View, documents: list[int], seed: int = 0) -> list[tuple[int, int]]:
    """(row of the anchor, row of the positive) of every example."""
    made = view.examples(corpus_of(documents), np.random.default_rng(seed))
    assert made.shape[1:] == (2, 2)
    assert (made[:, :, 1] == 0).all()
    return [(int(anchor), int(positive)) for anchor, positive in made[:, :, 0]]


def collection(count: int, sentences: int = 4, titled: bool = True) -> list[Document]:
    """Documents of drawn words."""
    draw = random.Random(2)

    def some(words: int) -> str:
        return " ".join(f"w{draw.randint(0, 5_000)}" for _ in range(words))

    return [Document(some(4) if titled else "", tuple(f"{some(8)}." for _ in range(sentences))) for _ in range(count)]
