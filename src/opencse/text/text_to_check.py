"""Reads a text as the command that suits it would, to check it: documents for adapting, or rows of pairs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from opencse.files import is_folder
from opencse.text.documents import Collection
from opencse.text.fields import suggest_fields
from opencse.text.files.formats import column_like
from opencse.text.files.kinds import SECTIONED, HowRead, typed
from opencse.text.files.pipes import name_in_command
from opencse.text.folders import holds_documents, tables_in
from opencse.text.given import DocumentTexts, FileTexts, Text, open_texts
from opencse.text.labels import graded_pairs
from opencse.text.left_out_rows import left_out_rows_of
from opencse.text.readers import Source, Texts

PAIRS_RECIPE = "simcse-supervised"
"""The recipe for rows of two or three texts."""
GRADED_RECIPE = "cosent"
"""The recipe for pairs with a score."""


@dataclass(frozen=True)
class TextToCheck:
    """A text that was read, and the command that suits it.

    Attributes:
        texts: sentences of documents, or rows.
        command: the command that trains on it; options can be appended.
        read_as: what the files were recognised as, and what was left out of them; one line each.
        advice: which fields have to be named to read it so, and what cannot be read again.
        recipe: that the command names; None: the one for documents or single texts.
    """

    texts: Texts
    command: str
    read_as: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    recipe: str | None = None


def read_to_check(
    text: Text,
    *,
    columns: Sequence[str] | None = None,
    split: str | None = None,
    fields: Sequence[str] | None = None,
    **how: Unpack[HowRead],
) -> TextToCheck:
    """Reads ``text`` as documents or rows, as the command that suits it would; see `opencse.check` for arguments.

    Raises:
        UserError: for bad input, in one line.
    """
    if not isinstance(text, str | Path):
        texts = open_texts(text, columns=columns, split=split, fields=fields, **how).read()
        return TextToCheck(texts, _training_command("TEXT", texts.width, None, None, how))
    location = str(text)
    name = name_in_command(location)
    again = () if name == location else ("a pipe is read once: save its text in a file, and name that for FILE",)
    guessed = False
    opened: FileTexts | None = None
    if columns is None and fields is None and not holds_documents(location):
        if split is None and is_folder(location):
            if not _holds_pairs(Path(location)):
                opened = DocumentTexts(Collection(location, **how))
        elif _has_named_columns(source := Source(location, None, split or "train", **how)):
            present = source.present()
            graded = graded_pairs(source) if column_like("negative", present) is None else None
            if graded is not None:
                command = _command_for_rows(name, None, GRADED_RECIPE, how)
                kind = f"read as {source.kind}; pairs with a score each"
                lines = (kind, *_in_a_line([left_out_rows_of(graded)]))
                return TextToCheck(graded.read(), command, lines, again, recipe=GRADED_RECIPE)
            has_text = any(column_like(usual, present) for usual in ("text", "sentence"))
            if not _are_pairs(present):
                fields = None if has_text else suggest_fields(source) or None
                guessed = fields is not None
                if guessed or has_text:
                    field_names = None if fields is None else tuple(fields)
                    opened = DocumentTexts(Collection(location, field_names, split=split or "train", **how))
    lines_read: list[str] = []
    if opened is None:
        read = open_texts(text, columns=columns, split=split, fields=fields, say=lines_read.append, **how)
        opened = read if isinstance(read, Source | DocumentTexts) else None
        texts = read.read()
    else:
        texts = opened.read()
    command = _training_command(name, texts.width, columns, fields, how)
    advice = (f"no column is called text; name the documents' title and text: {command}", *again) if guessed else again
    if isinstance(opened, DocumentTexts):
        return TextToCheck(texts, command, _in_a_line(opened.notes.lines()), advice)
    kinds = _in_a_line(lines_read)  # of a folder
    if not kinds and opened is not None and opened.is_file:
        kinds = (f"read as {opened.kind}",)
    left_out = () if opened is None else _in_a_line([left_out_rows_of(opened)])
    return TextToCheck(texts, command, (*kinds, *left_out), advice)


def _in_a_line(lines: Sequence[str]) -> tuple[str, ...]:
    """Lines for the user, which have a name in a column of its own, as plain words."""
    return tuple(" ".join(line.split()) for line in lines if line)


def _holds_pairs(folder: Path) -> bool:
    """Whether the first table or JSON file in a folder has columns of pairs, which `opencse.train` reads as rows."""
    return _are_pairs(next((Source(str(file)).present() for file in tables_in(folder)), ()))


def _are_pairs(present: Sequence[str]) -> bool:
    return all(column_like(name, present) for name in ("anchor", "positive"))


def _has_named_columns(source: Source) -> bool:
    """Whether it is a file of rows, and neither running text nor prose with sections."""
    return source.is_file and source.kind.name not in (*SECTIONED, "text")


def _training_command(
    location: str, width: int, columns: Sequence[str] | None, fields: Sequence[str] | None, how: HowRead
) -> str:
    if width > 1:
        return _command_for_rows(location, columns, PAIRS_RECIPE, how)
    return shlex.join(["opencse", "adapt", location, *typed({"fields": fields or columns, **how}), "--out", "adapted"])


def _command_for_rows(location: str, columns: Sequence[str] | None, recipe: str, how: HowRead) -> str:
    options = typed({"columns": columns, **how})
    return shlex.join(["opencse", "train", location, *options, "--recipe", recipe, "--out", "trained"])
