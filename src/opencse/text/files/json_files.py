"""Reads JSON files (an array of objects or texts, or an object with such a list inside) and nested keys of objects."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import Enum

from opencse.errors import UserError, reason
from opencse.text.files.lines import MAX_RECORD_CHARACTERS, File, read_blocks, read_text

_DEPTH = 4
_SPACE = " \t\r\n"
_USUAL = ("text", "sentence", "title", "anchor", "positive", "negative", "query", "question", "answer", "_id", "id")
"""Keys of a record, by which an object of texts is distinguished from texts by id."""


class Absent(Enum):
    """The value of a column that an object lacks, where columns may be missing."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


def leaf_names(record: Mapping[str, object], depth: int = 4) -> list[str]:
    """The keys of an object; keys of nested objects follow a dot: ``meta.title``.

    >>> leaf_names({"id": 1, "meta": {"title": "A"}})
    ['id', 'meta.title']
    """
    names: list[str] = []
    for key, value in record.items():
        inner = leaf_names(value, depth - 1) if isinstance(value, Mapping) and depth else []
        names += [f"{key}.{name}" for name in inner] or [str(key)]
    return names


def value_of(record: Mapping[str, object], name: str) -> object:
    """The value of a key, or of a nested key with dots; `ABSENT` if it does not exist."""
    if name in record:
        return record[name]
    head, dot, rest = name.partition(".")
    while dot:
        inner = record.get(head)
        if isinstance(inner, Mapping) and (value := value_of(inner, rest)) is not ABSENT:
            return value
        more, dot, rest = rest.partition(".")
        head = f"{head}.{more}"
    return ABSENT


def read_json(file: File, columns: Collection[str] = ()) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Reads objects, numbered from 1.

    The elements of an array are read one after another. Of an object, the longest list of objects or texts inside it is
    read (``{"data": [...]}``), or its values where they are all objects or all texts (their keys become ``_id``), or
    the object itself where it has neither. A text is an object with ``text``. An object of texts is one record, and not
    texts by id, where one of its keys is a usual name of a column (``text``, ``title``, ...) or is named.

    Args:
        file: what to read.
        columns: that the user named.

    Raises:
        UserError: for what is not valid JSON, or an element that is neither an object nor a text.
    """
    number = 0
    for number, value in enumerate(_elements(file, columns), start=1):
        if isinstance(value, str):
            value = {"text": value}
        if not isinstance(value, dict):
            raise UserError(f"{file}, row {number}: an object or a text is expected, not {type(value).__name__}")
        yield number, value
    if not number:
        raise UserError(f"{file}: holds no objects; a JSON array of objects with a text each is expected")


def _elements(file: File, columns: Collection[str]) -> Iterator[object]:
    begin = next((block for block in read_blocks(file) if block.strip()), "")
    if begin.lstrip().startswith("["):
        yield from _of_array(file)
        return
    try:
        value = json.loads(read_text(file))
    except (ValueError, RecursionError) as error:
        raise _invalid(file, error) from None
    yield from _inside(value, columns)


def _of_array(file: File) -> Iterator[object]:
    """The elements of an array, with only a few of them in memory at a time."""
    text = _Text(file)
    text.skip("[")
    if text.peek() != "]":
        yield text.value()
        while text.peek() == ",":
            text.skip(",")
            yield text.value()
    text.skip("]")
    if text.peek():
        raise UserError(f"{file}, line {text.line}: not valid JSON (more text after the end of the array)")


class _Text:
    """JSON text that is read piece by piece.

    Attributes:
        line: the current line, from 1.
    """

    def __init__(self, file: File) -> None:
        self.line = 1
        self._file = file
        self._blocks = read_blocks(file)
        self._text = ""
        self._position = 0

    def peek(self) -> str:
        """The next character that is not white space; empty at the end."""
        while True:
            while self._position < len(self._text) and self._text[self._position] in _SPACE:
                self.line += self._text[self._position] == "\n"
                self._position += 1
            if self._position < len(self._text) or not self._more():
                return self._text[self._position : self._position + 1]

    def skip(self, character: str) -> None:
        """Skips ``character``, which must be next."""
        if self.peek() != character:
            complete = "" if self.peek() else "; is the file complete?"
            raise UserError(f"{self._file}, line {self.line}: not valid JSON ({character!r} is expected{complete})")
        self._position += 1

    def value(self) -> object:
        """The next value."""
        self.peek()
        decoder = json.JSONDecoder()
        while True:
            try:
                value, end = decoder.raw_decode(self._text, self._position)
            except RecursionError as error:
                raise _invalid(self._file, error, self.line) from None
            except ValueError as error:
                enough = 2 * (len(self._text) - self._position)  # so that a long value is tried only a few times
                if enough > 2 * MAX_RECORD_CHARACTERS:
                    raise UserError(
                        f"{self._file}, line {self.line}: more than {MAX_RECORD_CHARACTERS:,} characters in one "
                        "object, or not valid JSON; split it, or correct it"
                    ) from None
                if not self._more():
                    raise _invalid(self._file, error, self.line) from None
                while len(self._text) < enough and self._more():
                    pass
            else:
                self.line += self._text.count("\n", self._position, end)
                self._position = end
                return value

    def _more(self) -> bool:
        """Reads the next block; False at the end."""
        block = next(self._blocks, "")
        self._text, self._position = self._text[self._position :] + block, 0
        return bool(block)


def _inside(value: object, columns: Collection[str]) -> Sequence[object]:
    """The records of an object."""
    best: list[object] = []
    for candidate in _lists(value, _DEPTH):
        if len(candidate) > len(best):
            best = candidate
    if best and 2 * len(json.dumps(best)) > len(json.dumps(value)):  # else it may be the authors of one document
        return best
    if isinstance(value, dict) and value and all(isinstance(one, dict) for one in value.values()):
        return [{"_id": key, **one} for key, one in value.items()]
    if isinstance(value, dict) and value and all(isinstance(one, str) for one in value.values()):
        is_record = any(key in columns or key.casefold() in _USUAL for key in value)
        return [value] if is_record else [{"_id": key, "text": text} for key, text in value.items()]
    return [value]


def _lists(value: object, depth: int) -> Iterator[list[object]]:
    """The lists of objects inside an object, or of texts at its top."""
    if not isinstance(value, dict) or not depth:
        return
    for one in value.values():
        if isinstance(one, list) and one and all(isinstance(element, dict) for element in one):
            yield one
        elif isinstance(one, dict):
            yield from _lists(one, depth - 1)


def _invalid(file: File, error: Exception, line: int = 1) -> UserError:
    if isinstance(error, json.JSONDecodeError):
        line += error.doc.count("\n", 0, error.pos) if line == 1 else 0
        return UserError(f"{file}, line {line}: not valid JSON ({error.msg}); correct it, or write it again")
    return UserError(f"{file}, line {line}: not valid JSON ({reason(error)}); correct it, or write it again")
