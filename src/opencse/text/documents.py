"""Documents with or without titles: running text, jsonl (BEIR's corpus too), a table with titles, a folder of files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from opencse.errors import MissingColumnError, UserError
from opencse.io import is_folder
from opencse.text.lines import COMPRESSED, read_objects, suffix_of
from opencse.text.prose import prose_files, read_prose
from opencse.text.readers import Source
from opencse.text.sentences import split_sentences

_CORPUS = "corpus.jsonl"
_NAMES = "name that of the documents 'text', and that of their titles 'title'"


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


def read_documents(path: Path) -> list[Document]:
    """All documents of a file, or of a folder of files, that hold any text.

    A ``.txt`` file holds a sentence a line, with blank lines between documents; without blank lines its lines are loose
    sentences. ``.jsonl`` holds ``text`` and maybe ``title`` on each line (as BEIR's ``corpus.jsonl``). Other files are
    tables with a column ``text`` and maybe ``title``. A body that begins with its title loses it there.
    A folder holds text and Markdown files, of which `opencse.text.prose` tells.

    Raises:
        UserError: for bad input, naming the file and the line; or where there is no text.
    """
    if path.is_dir():
        return [
            Document(
                one.title, tuple(sentence for part in one.paragraphs for sentence in split_sentences(part)), one.place
            )
            for one in read_prose(path)
        ]
    suffix = suffix_of(path)
    records = _from_text(path) if suffix == ".txt" else _from_jsonl(path) if suffix == ".jsonl" else _from_table(path)
    found = [document for document in records if document.sentences]
    if not found:
        raise UserError(f"{path}: no document with any text in it")
    return found


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


def _from_jsonl(path: Path) -> Iterator[Document]:
    for number, record in read_objects(path):
        where = f"{path}, line {number}"
        title, text = (_text(record.get(name), name, where) for name in ("title", "text"))
        if record.get("text") is None:
            there = ", ".join(str(key)[:40] for key in record) or "none"
            what = "'text' is null" if "text" in record else f"no 'text'; keys there: {there}; {_NAMES}"
            raise UserError(f"{where}: {what}")
        yield _document(title, text, str(record.get("_id", "")))


def _from_table(path: Path) -> Iterator[Document]:
    """Of a table's columns ``title`` and ``text``, or of ``text`` alone; a cell may be empty."""
    source = Source(str(path))
    try:
        yield from _from_rows(source, ("title", "text"))
    except MissingColumnError:
        try:
            yield from _from_rows(source, ("text",))
        except MissingColumnError as error:
            raise UserError(f"{error}; {_NAMES}") from None


def _from_rows(source: Source, columns: tuple[str, ...]) -> Iterator[Document]:
    for record in source.records(columns):
        where = f"{source.name}, {source.unit} {record.number}"
        cells = {name: _text(value, name, where) for name, value in zip(columns, record.values, strict=True)}
        yield _document(cells.get("title", ""), cells["text"])


def _text(value: object, name: str, where: str) -> str:
    if value is not None and not isinstance(value, str):
        raise UserError(f"{where}: {name!r} is {type(value).__name__}, not text")
    return value or ""


def _document(title: str, text: str, name: str = "") -> Document:
    title = " ".join(title.split())
    body = " ".join(text.split())
    head, rest = body[: len(title)], body[len(title) :]
    if title and head.casefold() == title.casefold() and not re.match(r"\w", rest):
        body = rest.lstrip(" .:;-–—")
    return Document(title, tuple(split_sentences(body)), name)
