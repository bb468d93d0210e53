"""Documents with or without titles: running text, jsonl (BEIR's corpus too), a table with titles, a folder of files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opencse.errors import MissingColumnError, UserError
from opencse.io import is_folder
from opencse.text.lines import COMPRESSED, read_objects, suffix_of
from opencse.text.prose import prose_files, read_prose
from opencse.text.readers import Source
from opencse.text.scripts import is_unicode
from opencse.text.sentences import split_sentences

_CORPUS = "corpus.jsonl"
_TITLE, _TEXT = "title", "text"
_NAMES = (
    "name that of the documents 'text', and that of their titles 'title', or say what they are called (adapt --fields)"
)

GivenDocument = str | tuple[str, str]
"""A document at hand: its text, or its title and its text."""


@dataclass(frozen=True)
class Document:
    """A text with what is known of its order.

    Attributes:
        title: empty where there is none.
        sentences: in reading order; a loose sentence is a document of one.
        name: its ``_id``, or the file and section it is from; empty where it has none.
    """

    title: str
    sentences: tuple[str, ...]
    name: str = field(default="", compare=False)

    @property
    def body(self) -> str:
        """The sentences as one text."""
        return " ".join(self.sentences)


def find_corpus(location: str | Path) -> Path:
    """What ``location`` means: the ``corpus.jsonl`` of a folder in BEIR's layout, or itself (a file, a folder).

    Raises:
        UserError: for an empty one, which would be the folder that one is in.
    """
    if not str(location).strip():
        raise UserError("no documents are named: the argument is empty; give a file or a folder")
    path = Path(location)
    if is_folder(path):
        for suffix in ("", *COMPRESSED):
            if (path / f"{_CORPUS}{suffix}").is_file():
                return path / f"{_CORPUS}{suffix}"
    return path


def holds_prose(location: str | Path) -> bool:
    """Whether it is a folder of text and Markdown files, and not in BEIR's layout."""
    path = Path(location)
    return is_folder(path) and find_corpus(path) == path and bool(prose_files(path))


def holds_documents(location: str | Path) -> bool:
    """Whether it is a folder in BEIR's layout, or of text and Markdown files."""
    return is_folder(location) and (find_corpus(location) != Path(location) or holds_prose(location))


def documents_at_hand(given: Sequence[GivenDocument]) -> list[Document]:
    """Documents of texts, or of titles with their texts, that hold any text.

    Raises:
        UserError: naming the first that is none; or where there is no text.
    """
    found = []
    for number, one in enumerate(given, start=1):
        parts = ("", one) if isinstance(one, str) else one
        if not isinstance(parts, tuple | list) or len(parts) != 2 or not all(isinstance(part, str) for part in parts):
            raise UserError(f"document {number}: a text, or a title and a text, is expected, not {type(one).__name__}")
        title, text = parts
        where = f"document {number}"
        found.append(_document(_text(title, _TITLE, where), _text(text, _TEXT, where)))
    return _with_text(found, "the documents given")


def read_documents(path: Path, fields: Sequence[str] | None = None) -> list[Document]:
    """All documents of a file, or of a folder of files, that hold any text.

    A ``.txt`` file holds a sentence a line, with blank lines between documents; without blank lines its lines are loose
    sentences. ``.jsonl`` holds ``text`` and maybe ``title`` on each line (as BEIR's ``corpus.jsonl``). Other files are
    tables with a column ``text`` and maybe ``title``. A body that begins with its title loses it there.
    A folder holds text and Markdown files, of which `opencse.text.prose` tells.

    Args:
        path: the file, or the folder.
        fields: what ``.jsonl`` or a table calls title and text, or the text alone, where not so.

    Raises:
        UserError: for bad input, naming the file and the line; or where there is no text.
    """
    names = None if fields is None else _named(fields, path)
    if path.is_dir():
        return [
            Document(
                one.title, tuple(sentence for part in one.paragraphs for sentence in split_sentences(part)), one.place
            )
            for one in read_prose(path)
        ]
    suffix = suffix_of(path)
    if suffix == ".txt":
        return _with_text(_from_text(path), str(path))
    return _with_text((_from_jsonl if suffix == ".jsonl" else _from_table)(path, names), str(path))


def _with_text(documents: Iterable[Document], where: str) -> list[Document]:
    found = [document for document in documents if document.sentences]
    if not found:
        raise UserError(f"{where}: no document with any text in it")
    return found


def _named(fields: Sequence[str], path: Path) -> tuple[str | None, str]:
    """The names of title, if there is one, and text."""
    if path.is_dir() or suffix_of(path) == ".txt":
        raise UserError(f"{path}: has no fields; leave --fields out (they are of .jsonl and of tables)")
    if isinstance(fields, str) or len(fields) not in (1, 2):
        raise UserError("fields are two names, the title's and the text's, or the text's alone")
    return (None, fields[0]) if len(fields) == 1 else (fields[0], fields[1])


def _from_text(path: Path) -> Iterator[Document]:
    texts = Source(str(path)).read()
    if texts.documents is None:
        yield from (Document("", row) for row in texts.rows)
        return
    sentences: list[str] = []
    for number, (row, owner) in enumerate(zip(texts.rows, texts.documents, strict=True)):
        sentences.append(row[0])
        if number + 1 == len(texts.rows) or texts.documents[number + 1] != owner:
            yield Document("", tuple(sentences))
            sentences = []


def _from_jsonl(path: Path, names: tuple[str | None, str] | None) -> Iterator[Document]:
    title, text = names or (_TITLE, _TEXT)
    titled = names is None or title is None
    for number, record in read_objects(path):
        where = f"{path}, line {number}"
        if record.get(text) is None:
            there = ", ".join(str(key)[:40] for key in record) or "none"
            mend = f"; {_NAMES}" if names is None else ""
            what = f"{text!r} is null" if text in record else f"no {text!r}; keys there: {there}{mend}"
            raise UserError(f"{where}: {what}")
        titled = titled or title in record
        own = "" if title is None else _text(record.get(title), title, where)
        yield _document(own, _text(record[text], text, where), "" if record.get("_id") is None else str(record["_id"]))
    if not titled:
        raise UserError(f"{path}: no line has {title!r}; name the titles' field, or the text's alone")


def _from_table(path: Path, names: tuple[str | None, str] | None) -> Iterator[Document]:
    """Of a table's columns of title and text, or of the text alone; a cell may be empty."""
    source = Source(str(path))
    if names is not None:
        yield from _from_rows(source, *names)
        return
    try:
        yield from _from_rows(source, _TITLE, _TEXT)
    except MissingColumnError:
        try:
            yield from _from_rows(source, None, _TEXT)
        except MissingColumnError as error:
            raise UserError(f"{error}; {_NAMES}") from None


def _from_rows(source: Source, title: str | None, text: str) -> Iterator[Document]:
    columns = (text,) if title is None else (title, text)
    for record in source.records(columns):
        where = f"{source.name}, {source.unit} {record.number}"
        cells = [_text(value, name, where) for name, value in zip(columns, record.values, strict=True)]
        yield _document("" if title is None else cells[0], cells[-1])


def _text(value: object, name: str, where: str) -> str:
    if value is not None and not isinstance(value, str):
        raise UserError(f"{where}: {name!r} is {type(value).__name__}, not text")
    if value and not is_unicode(value):
        raise UserError(f"{where}: {name!r} holds half of a surrogate pair, which is not text; correct its \\u escapes")
    return value or ""


def _document(title: str, text: str, name: str = "") -> Document:
    title = " ".join(title.split())
    body = " ".join(text.split())
    head, rest = body[: len(title)], body[len(title) :]
    if title and head.casefold() == title.casefold() and not re.match(r"\w", rest):
        body = rest.lstrip(" .:;-–—")
    return Document(title, tuple(split_sentences(body)), name)
