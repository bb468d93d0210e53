"""Texts that are given in Python, read like a file of them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

from opencse.errors import UserError
from opencse.text.documents import find_corpus, holds_documents, read_documents
from opencse.text.readers import ROLES, Source, Texts
from opencse.text.scripts import is_unicode


@dataclass(frozen=True)
class GivenTexts:
    """Rows of texts in memory; what a `Source` is for a file.

    Attributes:
        rows: M rows of C texts each, white space around them dropped; C is 1 (sentences), 2 (pairs) or 3 (triples).
        label: what a reader would call them; by default how many they are.
        documents: M document numbers of running text, else None.
    """

    rows: tuple[tuple[str, ...], ...]
    label: str = ""
    documents: tuple[int, ...] | None = None

    @property
    def name(self) -> str:
        """What a reader would call it."""
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
        if self.documents is not None:
            digest.update(f"{self.documents!r}\n".encode())
        return digest.hexdigest()

    def rows_with_documents(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """The rows one by one, each with the number of its document; 0 where there are none."""
        return zip(self.documents or repeat(0), self.rows, strict=False)

    def read(self) -> Texts:
        """All rows."""
        return Texts(list(self.rows), None if self.documents is None else list(self.documents), self.name)


TextSource = Source | GivenTexts
GivenRows = Sequence[str] | Sequence[tuple[str, ...]]
Text = str | Path | Source | GivenRows
"""What functions take as text: a file or Hub id, a `Source`, or a list of texts, pairs or triples."""


def open_texts(
    text: object,
    *,
    columns: Sequence[str] | None = None,
    split: str | None = None,
    skip_lines: Collection[int] = (),
) -> TextSource:
    """What to read: a `Source` as it is, a path or Hub id, or a list of texts, pairs or triples.

    A folder of text and Markdown files (see `opencse.text.prose`) is running text, a section a document; so is one in
    BEIR's layout (its ``corpus.jsonl``).

    Args:
        text: the text, or where it is.
        columns: of a file or Hub data set; see `Source`.
        split: of a Hub data set; ``train`` by default.
        skip_lines: of a file; see `Source`.

    Raises:
        TypeError: for anything else, naming the argument and the row.
        UserError: for an empty list, rows of several widths, a text that is empty or no Unicode, or columns, a split
            or lines of what is not read from a file.
    """
    if isinstance(columns, str):
        raise TypeError('columns is a list of names, such as ["anchor", "positive"], not a text')
    if isinstance(text, str | Path):
        named = None if columns is None else tuple(columns)
        if named is None and split in (None, "train") and not skip_lines and holds_documents(text):
            return _sentences_of(Path(text))
        return Source(str(text), columns=named, split=split or "train", skip_lines=frozenset(skip_lines))
    if columns is not None or split is not None or skip_lines:
        raise UserError("columns, split and skip_lines say how a file is read; leave them out with texts or a Source")
    if isinstance(text, Source | GivenTexts):
        return text
    if not isinstance(text, Sequence) or isinstance(text, bytes | bytearray):
        raise TypeError(f"text is a path, a Hub id, a Source or a list of texts, not {type(text).__name__}")
    rows = tuple(_row(row, f"text[{number}]") for number, row in enumerate(text))
    if not rows:
        raise UserError("text: the list is empty; give at least two texts")
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise UserError(f"text[{number}] has {len(row)} texts, but text[0] has {len(rows[0])}; give all as many")
    return GivenTexts(rows)


def _sentences_of(folder: Path) -> GivenTexts:
    documents = read_documents(find_corpus(folder))
    owners = tuple(number for number, document in enumerate(documents) for _ in document.sentences)
    rows = tuple((sentence,) for document in documents for sentence in document.sentences)
    return GivenTexts(rows, str(folder), owners)


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
        if not is_unicode(text):
            raise UserError(f"{where} holds half of a surrogate pair, which is not text")
    return texts


def texts_of(source: TextSource) -> list[str]:
    """Every text of every row, in their order."""
    return [text for row in source.read().rows for text in row]


def some_texts(source: TextSource, most: int = 2_000_000) -> list[str]:
    """Texts of every row, in their order; of a text too long for memory those of evenly spaced rows.

    Args:
        source: what to read.
        most: rows that are kept at a time; of more, at least half as many.
    """
    kept: list[tuple[str, ...]] = []
    every = 1
    for number, (_, row) in enumerate(source.rows_with_documents()):
        if number % every == 0:
            kept.append(row)
            if len(kept) > most:
                kept = kept[::2]
                every *= 2
    return [text for row in kept for text in row]
