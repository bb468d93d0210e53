"""Chooses which columns of tables and objects are a document's title, text and id."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from opencse.errors import MissingColumnError, nearest, require_once
from opencse.text.files.formats import column_like, columns_there
from opencse.text.readers import Source
from opencse.text.scripts import count_words

TITLE, TEXT, ID = "title", "text", "_id"
_LOOKED_AT = 100
_MOST_NAMED = 12
_ABOUT = 1.3
"""Texts are about equally long up to this factor."""
_LONGEST_NAME = 6
"""Words in the name of a column, at most."""
_ENDS = (".", "!", "?", "\u3002", "\uff01", "\uff1f")


@dataclass(frozen=True)
class DocumentFields:
    """The names of the columns that are read as title, text and id.

    Attributes:
        title: of the title; None if there is none.
        texts: of the text, or of several that are joined.
        id: of the id; None if documents are numbered instead.
    """

    title: str | None
    texts: tuple[str, ...]
    id: str | None

    @property
    def every(self) -> tuple[str, ...]:
        """All names, each once."""
        names = (*((self.title,) if self.title else ()), *self.texts, *((self.id,) if self.id else ()))
        return tuple(dict.fromkeys(names))

    def described(self, present: Sequence[str], metadata: Sequence[str] = ()) -> str:
        """A description for messages: ``title 'Betreff', text 'Text', not read: Nummer``."""
        title = f"title {self.title!r}" if self.title else "no title"
        texts = ", ".join(repr(name) for name in self.texts)
        used = (*self.every, *metadata)
        others = [name for name in present if name not in used and name.partition(".")[0] != self.id]
        rest = f"; not read: {', '.join(others[:_MOST_NAMED])}" if others else ""
        return f"{title}, text {texts}" + (f", id {self.id!r}" if self.id else "") + rest


def choose_fields(source: Source, fields: Sequence[str] | None, ids: str | None = None) -> DocumentFields:
    """Chooses the fields of the documents in ``source``: as given, or ``title`` and ``text`` in any letter case.

    Args:
        source: objects or a table.
        fields: names of the title and the text (more are further texts), or of the text alone.
        ids: name of the id; None: ``_id`` if there is one.

    Raises:
        MissingColumnError: for a field that does not exist, naming those that do and the option to use.
    """
    present = source.present((*(fields or ()), *([ids] if ids else [])))
    if fields is None:
        text, title = column_like(TEXT, present) or column_like("sentence", present), column_like(TITLE, present)
        if text is None:
            raise MissingColumnError(
                f"{source.name}: no column {TEXT!r}; {columns_there(present)}; {_how_to_name(suggest_fields(source))}"
            )
        names = DocumentFields(title, (text,), ids or (ID if column_exists(ID, present) else None))
    else:
        if isinstance(fields, str):
            raise TypeError("fields is a list of names, the title's and the text's, or the text's alone")
        require_once(fields, "field")
        if source.is_file and source.kind.name == "table" and all(name.isdecimal() for name in fields):
            present = (*present, *fields)  # by position
        title, texts = (None, fields) if len(fields) == 1 else (fields[0], fields[1:])
        names = DocumentFields(title, tuple(texts), ids or (ID if column_exists(ID, present) else None))
    require_columns(source, names.every, present)
    return names


def require_columns(source: Source, names: Sequence[str], present: Sequence[str] | None) -> None:
    """Refuses names of columns that do not exist.

    Raises:
        MissingColumnError: naming the columns that do, and the nearest one.
    """
    present = source.present() if present is None else present
    for name in names:
        if not column_exists(name, present):
            hint = nearest(name, list(present))
            raise MissingColumnError(f"{source.name}: no column {name!r}{hint}; {columns_there(present)}")


def column_exists(name: str, present: Sequence[str]) -> bool:
    """Whether a column exists, or is an object with fields of its own.

    Example:
        >>> column_exists("meta", ["text", "meta.year"]), column_exists("year", ["text", "meta.year"])
        (True, False)
    """
    return name in present or any(other.startswith(f"{name}.") for other in present)


def _how_to_name(suggested: tuple[str, ...]) -> str:
    if not suggested:
        return "name the documents' title and text with --fields"
    return f"name the documents' title and text, for instance --fields {shlex.quote(','.join(suggested))}"


def suggest_fields(source: Source) -> tuple[str, ...]:
    """Suggests the columns that look most like title and text, or text alone; empty if none does.

    The text is the column with the longest texts, the last one of several about equally long ones; the title is one
    with fewer words, few of which repeat. In a table whose first row looks like the others, columns are given by their
    positions.
    """
    present = tuple(name for name, times in Counter(source.present()).items() if times == 1 and "," not in name)
    headerless = source.is_file and source.kind.name == "table" and _is_headerless(source.present())
    if headerless:
        present = tuple(str(position) for position in range(1, len(source.present()) + 1))
    if not present:
        return ()
    rows = [record.values for record in islice(source.records(present, lenient=True), _LOOKED_AT)]
    texts: dict[str, list[str]] = {}
    for name, cells in zip(present, zip(*rows, strict=True), strict=bool(rows)):
        filled = [cell for cell in cells if isinstance(cell, str) and any(letter.isalpha() for letter in cell)]
        if 2 * len(filled) > len(cells):
            texts[name] = filled
    if not texts:
        return ()
    characters = {name: sum(map(len, cells)) / len(cells) for name, cells in texts.items()}
    words = {name: sum(count_words(cell) for cell in cells) / len(cells) for name, cells in texts.items()}
    text = [name for name, mean in characters.items() if _ABOUT * mean >= max(characters.values())][-1]
    titles = [
        name
        for name in texts
        if name != text and 1.2 <= words[name] <= 20 and 2 * len(set(texts[name])) > len(texts[name])
    ]
    with_title_in_name = [name for name in titles if TITLE in name.casefold()]
    return (*(with_title_in_name or titles)[:1], text)


def _is_headerless(header: Sequence[str]) -> bool:
    """Whether a header looks like a row of texts or numbers instead of names of columns."""
    return any(name[-1:] in _ENDS or len(name.split()) > _LONGEST_NAME or name.isdecimal() for name in header)
