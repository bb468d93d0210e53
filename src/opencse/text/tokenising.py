"""Token ids of a text of any length, written to arrays as they are made.

What is in memory does not grow with the text. Long texts are tokenised by several processes. What is on the disk is
noted now and then, so that a killed run goes on from there.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError
from opencse.io import npy_header, write_text
from opencse.progress import Count
from opencse.text.column_prompts import ColumnPrompts
from opencse.text.given import TextSource
from opencse.text.tokenizer import Tokenizer, WordNumbers
from opencse.workers import cores, started

CHUNK = 20_000
"""Texts that are tokenised together."""
SHARED = 2_000_000
"""Texts from which on it is worth starting processes."""
_NOTED = 50
"""Chunks between two notes of what is on the disk."""
_STATE = "made.json"
_AT_ONCE = 4_000_000
"""Keys that are compared in memory."""
_READ = 1_000_000
"""Rows of keys that are read at a time."""
Rows = list[tuple[int, tuple[str, ...]]]


@dataclass(frozen=True)
class Piece:
    """Some rows, tokenised.

    Attributes:
        ids: of all texts, one after the other.
        lengths: of each text.
        keys: of each text.
        documents: of each row.
        words: of each id, if asked for.
    """

    ids: NDArray[np.int32]
    lengths: NDArray[np.int64]
    keys: NDArray[np.int64]
    documents: NDArray[np.int32]
    words: WordNumbers | None


@dataclass
class Made:
    """What is written so far, and on the disk."""

    rows: int = 0
    texts: int = 0
    tokens: int = 0
    at_limit: int = 0
    documents: int = 0
    last: int = -1
    largest: int = 0


def text_key(text: str) -> int:
    """A 64-bit hash of a text, white space collapsed; the same on every machine and in every process."""
    digest = hashlib.blake2b(" ".join(text.split()).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


class Tokenising:
    """Makes `Piece`s of rows; ``prompts`` come before the texts of the columns."""

    def __init__(
        self, tokenizer: Tokenizer, max_length: int, words: bool, source: str, prompts: tuple[str, ...] = ()
    ) -> None:
        self._tokenizer, self._max_length, self._words, self._source = tokenizer, max_length, words, source
        self._prompts = prompts if any(prompts) else ()
        self._prompted = [_words_of(prompt, tokenizer) for prompt in prompts] if words else []

    def __call__(self, rows: Rows) -> Piece:
        """The ids of every text of ``rows``.

        Raises:
            UserError: for a text without a token.
        """
        flat = [text for _, row in rows for text in row]
        read = flat
        if self._prompts:
            read = [prompt + text for _, row in rows for prompt, text in zip(self._prompts, row, strict=True)]
        numbers: WordNumbers | None = None
        if self._words:
            found = self._tokenizer.encode_words(read, self._max_length)
            ids = [text.ids for text in found]
            numbers = np.concatenate([text.words for text in found if text.words is not None])
            if any(self._prompted):  # no view changes the prompt
                words = np.tile(np.array(self._prompted, dtype=numbers.dtype), len(rows))
                before = np.repeat(words, [len(text.ids) for text in found])
                numbers = np.maximum(numbers - before, -1).astype(numbers.dtype)
        else:
            ids = self._tokenizer.encode(read, self._max_length)
        lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
        if not lengths.all():
            wordless = flat[int(lengths.argmin())]
            raise UserError(f"{self._source}: the tokenizer makes no token of the text {wordless[:40]!r}; drop it")
        keys = np.fromiter(map(text_key, flat), dtype=np.int64, count=len(flat))
        documents = np.fromiter((document for document, _ in rows), dtype=np.int32, count=len(rows))
        return Piece(np.concatenate(ids), lengths, keys, documents, numbers)


def _words_of(prompt: str, tokenizer: Tokenizer) -> int:
    """How many words a prompt puts before a text; one that the text's first word goes on with is the text's."""
    if not prompt:
        return 0
    numbers = tokenizer.encode_words([prompt], None)[0].words
    count = 0 if numbers is None else int(numbers.max(initial=-1)) + 1
    return count if prompt[-1].isspace() else max(0, count - 1)


class Growing:
    """An ``.npy`` file that rows are appended to; its header is that of `numpy.save` once it is closed."""

    def __init__(self, path: Path, dtype: Any, columns: int | None, rows: int | None) -> None:  # noqa: ANN401
        self._dtype, self._columns = np.dtype(dtype), columns
        self._stream = path.open("r+b" if rows is not None else "w+b")
        self.rows = rows or 0
        if rows is None:
            self._stream.write(self._header)
        else:
            self._stream.truncate(len(self._header) + rows * self._dtype.itemsize * (columns or 1))
            self._stream.seek(0, os.SEEK_END)

    @property
    def _header(self) -> bytes:
        shape = (self.rows,) if self._columns is None else (self.rows, self._columns)
        return npy_header(self._dtype, shape)

    def add(self, values: NDArray[Any]) -> None:
        """Appends rows."""
        self._stream.write(np.ascontiguousarray(values, dtype=self._dtype).data)
        self.rows += values.size // (self._columns or 1)

    def sync(self) -> None:
        """Waits until what is written is on the disk."""
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        """Writes the header anew, and closes."""
        self._stream.seek(0)
        self._stream.write(self._header)
        self._stream.close()

    def abandon(self) -> None:
        """Closes; the header stays that of no rows."""
        self._stream.close()


class Writing:
    """The arrays of a corpus in a folder, while they are made."""

    def __init__(self, folder: Path, width: int, tokenizer: Tokenizer, words: bool) -> None:
        self._folder = folder
        self.made = self._before()
        begun = self.made.rows > 0
        small = tokenizer.vocabulary_size <= 2**16
        self._small = small

        def growing(name: str, dtype: Any, rows: int, columns: int | None = None) -> Growing:  # noqa: ANN401
            return Growing(folder / f"{name}.npy", dtype, columns, rows if begun else None)

        self.arrays = {
            "ids": growing("ids", np.uint16 if small else np.int32, self.made.tokens),
            "offsets": growing("offsets", np.int64, self.made.texts + 1),
            "keys": growing("keys", np.int64, self.made.rows, width),
            "documents": growing("documents", np.int32, self.made.rows),
        }
        if words:
            self.arrays["words"] = growing("words", np.int16, self.made.tokens)
        if not begun:
            self.arrays["offsets"].add(np.zeros(1, dtype=np.int64))
        self._unnoted = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for array in self.arrays.values():
            array.abandon() if kind is not None else array.close()

    def _before(self) -> Made:
        try:
            return Made(**json.loads((self._folder / _STATE).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return Made()

    def add(self, piece: Piece, max_length: int) -> None:
        """Appends a piece; now and then makes sure of all of them."""
        made = self.made
        self.arrays["ids"].add(piece.ids)
        self.arrays["offsets"].add(made.tokens + np.cumsum(piece.lengths))
        self.arrays["keys"].add(piece.keys)
        self.arrays["documents"].add(piece.documents)
        if piece.words is not None:
            self.arrays["words"].add(piece.words)
        made.rows += len(piece.documents)
        made.texts += len(piece.lengths)
        made.tokens += len(piece.ids)
        made.at_limit += int((piece.lengths == max_length).sum())
        made.documents += int((np.diff(piece.documents, prepend=made.last) != 0).sum())
        made.last = int(piece.documents[-1])
        made.largest = max(made.largest, int(piece.ids.max()))
        self._unnoted += 1
        if self._unnoted == _NOTED:
            self._unnoted = 0
            for array in self.arrays.values():
                array.sync()
            write_text(self._folder / _STATE, json.dumps(asdict(made)))


def has_begun(folder: Path) -> bool:
    """Whether there is something in ``folder`` to go on with."""
    return (folder / _STATE).exists()


def write_arrays(
    source: TextSource,
    folder: Path,
    tokenizer: Tokenizer,
    max_length: int,
    *,
    words: bool,
    progress: Count | None,
    prompts: ColumnPrompts,
    chunk: int = CHUNK,
    shared: int = SHARED,
) -> tuple[Made, int]:
    """Writes the arrays of ``source`` to ``folder``, or goes on with those that are there.

    Returns:
        What was made, and the texts of a row.

    Raises:
        UserError: for bad input.
        OSError: if they cannot be written.
    """
    rows, width = 0, 0
    for _, row in source.rows_with_documents():
        rows, width = rows + 1, len(row)
    work = Tokenising(tokenizer, max_length, words, source.name, prompts.of(width))
    with Writing(folder, width, tokenizer, words) as writing:
        pieces = _pieces(source, writing.made.rows, max(1, chunk // width))
        count = min(cores(), 8) if (rows - writing.made.rows) * width >= shared else 1
        for piece in map(work, pieces) if count == 1 else _shared_out(work, pieces, count):
            writing.add(piece, max_length)
            if progress is not None:
                progress(writing.made.rows, rows)
    (folder / _STATE).unlink(missing_ok=True)
    if not writing._small and writing.made.largest <= np.iinfo(np.uint16).max:
        _shrink(folder / "ids.npy")
    return writing.made, width


def _pieces(source: TextSource, before: int, size: int) -> Iterator[Rows]:
    rows = islice(source.rows_with_documents(), before, None)
    while piece := list(islice(rows, size)):
        yield piece


def _shared_out(work: Tokenising, pieces: Iterator[Rows], count: int) -> Iterator[Piece]:
    """What ``work`` makes of the pieces, in their order, by ``count`` processes."""
    early: dict[int, Piece] = {}
    turn = 0
    with started(count, _work, _begin, work) as workers:
        for (number, _), piece in workers.done(enumerate(pieces), lambda: None):
            early[number] = piece
            while turn in early:
                yield early.pop(turn)
                turn += 1


_here: Tokenising | None = None
"""Of a process that works for another."""


def _begin(work: Tokenising) -> None:
    global _here
    _here = work


def _work(task: tuple[int, Rows]) -> Piece:
    if _here is None:
        raise RuntimeError("this process has no tokenizer")
    return _here(task[1])


def _shrink(path: Path) -> None:
    """Ids that all fit into 16 bits, written so."""
    wide = np.load(path, mmap_mode="r")
    narrow = path.with_suffix(".narrow")
    small = Growing(narrow, np.uint16, None, None)
    for start in range(0, len(wide), 1 << 24):
        small.add(wide[start : start + (1 << 24)].astype(np.uint16))
    small.close()
    narrow.replace(path)


def count_duplicates(path: Path) -> int:
    """Rows of the (M, C) keys in an ``.npy`` file that repeat an earlier one.

    A part of the rows is looked at at a time, written apart first where there are several, and files are read rather
    than mapped: what is in memory does not grow with it, and the file is read once.
    """
    shape: tuple[int, int] = np.load(path, mmap_mode="r").shape
    rows, columns = shape
    parts = -(-rows // _AT_ONCE)
    if parts == 1:
        return rows - _distinct(np.concatenate(list(_blocks(path))))
    with TemporaryDirectory(dir=path.parent, prefix="keys.") as folder:
        apart = [Path(folder) / str(part) for part in range(parts)]
        for block in _blocks(path):
            of = block[:, 0] % parts
            for part in np.unique(of):
                with apart[part].open("ab") as stream:
                    block[of == part].tofile(stream)
        found = (np.fromfile(one, np.int64).reshape(-1, columns) for one in apart if one.exists())
        return rows - sum(map(_distinct, found))


def _distinct(rows: NDArray[np.int64]) -> int:
    return len(np.unique(rows if rows.shape[1] > 1 else rows[:, 0], axis=0))


def _blocks(path: Path) -> Iterator[NDArray[np.int64]]:
    with path.open("rb") as stream:
        np.lib.format.read_magic(stream)
        (_, columns), _, dtype = np.lib.format.read_array_header_1_0(stream)
        while len(block := np.fromfile(stream, dtype, _READ * columns)):
            yield block.reshape(-1, columns)
