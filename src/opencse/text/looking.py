"""Reads a text for `opencse.check`: as documents or rows, with the command that trains on it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opencse.text.documents import Collection, holds_documents
from opencse.text.fields import suggest_fields
from opencse.text.files.formats import column_like
from opencse.text.files.kinds import SECTIONED
from opencse.text.given import DocumentTexts, FileTexts, Text, open_texts
from opencse.text.readers import Source, Texts

PAIRS_RECIPE = "simcse-supervised"
"""The recipe for rows of two or three texts."""


@dataclass(frozen=True)
class LookedAt:
    """A text, read.

    Attributes:
        texts: sentences of documents, or rows.
        command: what trains on it; options can be added behind it.
        read_as: what the files were recognised as, and what was left out of them; a line each.
        advice: what has to be named to read it so.
    """

    texts: Texts
    command: str
    read_as: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()


def look_at(
    text: Text,
    *,
    columns: Sequence[str] | None = None,
    split: str | None = None,
    fields: Sequence[str] | None = None,
    keep_code: bool = False,
) -> LookedAt:
    """Reads ``text`` as the command that suits it does; see `opencse.check` for the arguments.

    Raises:
        UserError: for bad input, in one line.
    """
    if not isinstance(text, str | Path):
        texts = open_texts(text, columns=columns, split=split, fields=fields, keep_code=keep_code).read()
        return LookedAt(texts, _command("TEXT", texts.width, None, None, False))
    location = str(text)
    guessed = False
    opened: FileTexts | None = None
    if columns is None and fields is None and not holds_documents(location):
        source = Source(location, None, split or "train", keep_code=keep_code)
        if source.is_file and source.kind.name not in (*SECTIONED, "text"):
            present = source.present()
            if column_like("anchor", present) is None or column_like("positive", present) is None:
                if column_like("text", present) is None and column_like("sentence", present) is None:
                    fields = suggest_fields(source) or None
                    guessed = fields is not None
                if guessed or column_like("text", present) or column_like("sentence", present):
                    named = None if fields is None else tuple(fields)
                    opened = DocumentTexts(Collection(location, named, split=split or "train", keep_code=keep_code))
    if opened is None:
        read = open_texts(text, columns=columns, split=split, fields=fields, keep_code=keep_code)
        opened = read if isinstance(read, Source | DocumentTexts) else None
        texts = read.read()
    else:
        texts = opened.read()
    command = _command(location, texts.width, columns, fields, keep_code)
    advice = (f"no column is called text; name the documents' title and text: {command}",) if guessed else ()
    if isinstance(opened, DocumentTexts):
        return LookedAt(texts, command, tuple(" ".join(line.split()) for line in opened.notes.lines()), advice)
    kind = (f"read as {opened.kind}",) if opened is not None and opened.is_file else ()
    return LookedAt(texts, command, kind, advice)


def _command(
    location: str, width: int, columns: Sequence[str] | None, fields: Sequence[str] | None, keep_code: bool
) -> str:
    if width > 1:
        named = [] if columns is None else ["--columns", ",".join(columns)]
        return shlex.join(["opencse", "train", location, *named, "--recipe", PAIRS_RECIPE, "--out", "trained"])
    of_documents = fields or columns
    named = [] if of_documents is None else ["--fields", ",".join(of_documents)]
    code = ["--keep-code"] if keep_code else []
    return shlex.join(["opencse", "adapt", location, *named, *code, "--out", "adapted"])
