"""A small text, and what its tokenised corpora in a cache are held against."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from opencse.text.corpus import Corpus, tokenise
from opencse.text.readers import Source
from opencse.text.tokenizer import Tokenizer

TEXT = "The bread rises.\nA cat sleeps.\n\nA cat sleeps.\n\n" + "word " * 30 + "\nThe end.\n"


def folders(cache: Path) -> list[Path]:
    return sorted((cache / "corpora").iterdir())


def same(a: Corpus, b: Corpus) -> bool:
    pairs = [(a.ids, b.ids), (a.offsets, b.offsets), (a.keys, b.keys), (a.documents, b.documents)]
    return a.facts == b.facts and all(np.array_equal(x, y) for x, y in pairs)


def repaired(source: Source, tokenizer: Tokenizer, cache: Path, *, words: bool = False) -> Corpus:
    """What the cache gives once it has said that a part of it is damaged."""
    told: list[str] = []
    made = tokenise(source, tokenizer, 12, words=words, cache=cache, say=told.append)
    (folder,) = folders(cache)
    assert told == [f"{folder}: this part of the token cache is damaged (its checksum is another); it is made again"]
    return made
