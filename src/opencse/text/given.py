"""Texts that are given in Python, read like a file of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opencse.errors import UserError
from opencse.text.readers import ROLES, Source, Texts


@dataclass(frozen=True)
class GivenTexts:
    """Rows of texts in memory; what a `Source` is for a file.

    Attributes:
        rows: M rows of C texts each, white space around them dropped; C is 1 (sentences), 2 (pairs) or 3 (triples).
        label: what a person would call them; by default how many they are.
    """

    rows: tuple[tuple[str, ...], ...]
    label: str = ""

    @property
    def name(self) -> str:
        """What a person would call it."""
        return self.label or f"{len(self.rows):,} given {('sentences', 'pairs', 'triples')[len(self.rows[0]) - 1]}"

    @property
    def location(self) -> str:
        """For messages, where a file has its path."""
        return self.name

    def fingerprint(self) -> str:
        """A hash of the texts; equal fingerprints give equal rows."""
        digest = hashlib.sha256(b"given\n")
        for row in self.rows:
            digest.update(f"{row!r}\n".encode())
        return digest.hexdigest()

    def read(self) -> Texts:
        """All rows."""
        return Texts(list(self.rows), None, self.name)


TextSource = Source | GivenTexts


def open_texts(text: object) -> TextSource:
    """What to read: a `Source` as it is, a path or Hub id, or a list of texts, pairs or triples.

    Raises:
        TypeError: for anything else, naming the argument and the row.
        UserError: for an empty list, rows of several widths, or a text that is empty or no Unicode.
    """
    if isinstance(text, Source | GivenTexts):
        return text
    if isinstance(text, str | Path):
        return Source(str(text))
    if not isinstance(text, Sequence) or isinstance(text, bytes | bytearray):
        raise TypeError(f"text is a path, a Hub id, a Source or a list of texts, not {type(text).__name__}")
    rows = tuple(_row(row, f"text[{number}]") for number, row in enumerate(text))
    if not rows:
        raise UserError("text: the list is empty; give at least two texts")
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise UserError(f"text[{number}] has {len(row)} texts, but text[0] has {len(rows[0])}; give all as many")
    return GivenTexts(rows)


def _row(row: object, where: str) -> tuple[str, ...]:
    values = (row,) if isinstance(row, str) else row
    if not isinstance(values, tuple | list) or not all(isinstance(value, str) for value in values):
        raise TypeError(f"{where} is a text, or a tuple of two or three, not {type(row).__name__} {str(row)[:40]!r}")
    if not 1 <= len(values) <= len(ROLES):
        raise UserError(f"{where} has {len(values)} texts; give one (a sentence), two (a pair) or three (a triple)")
    texts = tuple(value.strip() for value in values)
    for text in texts:
        if not text:
            raise UserError(f"{where} is empty; fill it or drop it")
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise UserError(f"{where} holds half of a surrogate pair, which is not text")
    return texts
