"""Writes the token ids of a text of any length to arrays on the disk.

Memory does not grow with the text. Long texts are tokenised by several processes. What is on the disk is recorded every
50 pieces, so that a call continues after a kill.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError
from opencse.files import GrowingFile, npy_header, write_text
from opencse.progress import Count
from opencse.text.given import TextSource
from opencse.text.template import ColumnPrompts
from opencse.text.tokenizer import Tokenizer, WordNumbers
from opencse.workers import cores, started

CHUNK = 20_000
"""Texts that are tokenised together."""
SHARED = 2_000_000
"""Number of texts from which several processes are worth starting."""
_RECORD_EVERY = 50
"""Pieces between two records of what is on the disk."""
_RECORD = "made.json"
NumberedRows = list[tuple[int, tuple[str, ...]]]
"""Rows of texts, each with the number of its document."""


@dataclass(frozen=True)
class Piece:
    """Consecutive rows, tokenised.

    Attributes:
        ids: of all texts, one after the other.
        lengths: of each text.
        keys: of each text.
        documents: of each row.
        words: of each id, if requested.
    """

    ids: NDArray[np.int32]
    lengths: NDArray[np.int64]
    keys: NDArray[np.int64]
    documents: NDArray[np.int32]
    words: WordNumbers | None


@dataclass
class CorpusCounts:
    """Counts of the part of a corpus that is written; they are recorded, so that a killed call can continue.

    Attributes:
        rows: number of rows.
        texts: number of texts, one or several per row.
        tokens: number of ids.
        at_limit: texts that were truncated, or are just as long as allowed.
        documents: number of documents that the rows come from.
        last: number of the document of the last row.
        largest: largest id.
    """

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
    """Tokenises rows into pieces; ``prompts`` come before the texts of the columns."""

    def __init__(
        self, tokenizer: Tokenizer, max_length: int, words: bool, source: str, prompts: tuple[str, ...] = ()
    ) -> None:
        self._tokenizer, self._max_length, self._words, self._source = tokenizer, max_length, words, source
        self._prompts = prompts if any(prompts) else ()
        self._prompted = [_words_of(prompt, tokenizer) for prompt in prompts] if words else []

    def __call__(self, rows: NumberedRows) -> Piece:
        """Tokenises every text of ``rows``.

        Raises:
            UserError: for a text without a token.
        """
        flat = [text for _, row in rows for text in row]
        read = flat
        if self._prompts:
            read = [prompt + text for _, row in rows for prompt, text in zip(self._prompts, row, strict=True)]
        numbers: WordNumbers | None = None
        if self._words:
            tokenised = self._tokenizer.encode_words(read, self._max_length)
            ids = [text.ids for text in tokenised]
            numbers = np.concatenate([text.words for text in tokenised if text.words is not None])
            if any(self._prompted):  # views change words of the text, never of the prompt
                words = np.tile(np.array(self._prompted, dtype=numbers.dtype), len(rows))
                before = np.repeat(words, [len(text.ids) for text in tokenised])
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
    """Words that a prompt puts before a text; one that continues in the text's first word belongs to the text."""
    if not prompt:
        return 0
    numbers = tokenizer.encode_words([prompt], None)[0].words
    count = 0 if numbers is None else int(numbers.max(initial=-1)) + 1
    return count if prompt[-1].isspace() else max(0, count - 1)


class GrowingArray:
    """An ``.npy`` file that rows are appended to; once closed it is what `numpy.save` writes."""

    def __init__(self, path: Path, dtype: Any, columns: int | None = None) -> None:  # noqa: ANN401
        self._dtype, self._columns = np.dtype(dtype), columns
        self._file = GrowingFile(path)
        self.rows = 0

    @property
    def _header(self) -> bytes:
        shape = (self.rows,) if self._columns is None else (self.rows, self._columns)
        return npy_header(self._dtype, shape)

    def restart(self) -> None:
        """Removes all rows."""
        self.rows = 0
        self._file.restart()
        self._file.append(self._header)

    def keep(self, rows: int) -> bool:
        """Keeps the first ``rows`` and appends after them; False if there are fewer."""
        self.rows = rows
        return self._file.keep(len(self._header) + rows * self._dtype.itemsize * (self._columns or 1))

    def add(self, values: NDArray[Any]) -> None:
        """Appends rows."""
        self._file.append(np.ascontiguousarray(values, dtype=self._dtype).tobytes())
        self.rows += values.size // (self._columns or 1)

    def sync(self) -> None:
        """Waits until all rows that were added are on the disk."""
        self._file.sync()

    def close(self) -> None:
        """Writes the final header, and closes."""
        self._file.overwrite_start(self._header)
        self._file.close()

    def abandon(self) -> None:
        """Closes; the header stays that of no rows."""
        self._file.close()


class CorpusWriter:
    """Writes the arrays of a corpus to a folder, and records now and then how far they are on the disk.

    Attributes:
        counts: of all rows that are written.
        arrays: by name.
    """

    def __init__(self, folder: Path, width: int, tokenizer: Tokenizer, words: bool) -> None:
        """Continues after what is recorded in ``folder``, if there is anything.

        Args:
            folder: of the arrays.
            width: texts per row.
            tokenizer: makes the ids; the size of its vocabulary decides their type.
            words: whether the word of every id is written too.
        """
        self._record = folder / _RECORD
        self.narrow = tokenizer.vocabulary_size <= 2**16
        self.arrays = {
            "ids": GrowingArray(folder / "ids.npy", np.uint16 if self.narrow else np.int32),
            "offsets": GrowingArray(folder / "offsets.npy", np.int64),
            "keys": GrowingArray(folder / "keys.npy", np.int64, width),
            "documents": GrowingArray(folder / "documents.npy", np.int32),
        }
        if words:
            self.arrays["words"] = GrowingArray(folder / "words.npy", np.int16)
        self.counts = self._recorded_counts()
        counts = self.counts
        rows = {"offsets": counts.texts + 1, "keys": counts.rows, "documents": counts.rows}
        if not counts.rows or not all(array.keep(rows.get(name, counts.tokens)) for name, array in self.arrays.items()):
            self.counts = CorpusCounts()
            for array in self.arrays.values():
                array.restart()
            self.arrays["offsets"].add(np.zeros(1, dtype=np.int64))
        self._unrecorded = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for array in self.arrays.values():
            array.abandon() if kind is not None else array.close()

    def _recorded_counts(self) -> CorpusCounts:
        try:
            return CorpusCounts(**json.loads(self._record.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return CorpusCounts()

    def add(self, piece: Piece, max_length: int) -> None:
        """Appends a piece; every 50th time all of them are waited for and recorded."""
        counts = self.counts
        self.arrays["ids"].add(piece.ids)
        self.arrays["offsets"].add(counts.tokens + np.cumsum(piece.lengths))
        self.arrays["keys"].add(piece.keys)
        self.arrays["documents"].add(piece.documents)
        if piece.words is not None:
            self.arrays["words"].add(piece.words)
        counts.rows += len(piece.documents)
        counts.texts += len(piece.lengths)
        counts.tokens += len(piece.ids)
        counts.at_limit += int((piece.lengths == max_length).sum())
        counts.documents += int((np.diff(piece.documents, prepend=counts.last) != 0).sum())
        counts.last = int(piece.documents[-1])
        counts.largest = max(counts.largest, int(piece.ids.max()))
        self._unrecorded += 1
        if self._unrecorded == _RECORD_EVERY:
            self._unrecorded = 0
            for array in self.arrays.values():
                array.sync()
            write_text(self._record, json.dumps(asdict(counts)))


def has_begun(folder: Path) -> bool:
    """Whether ``folder`` holds the beginning of a corpus to continue from."""
    return (folder / _RECORD).exists()


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
) -> tuple[CorpusCounts, int]:
    """Writes the arrays of ``source`` to ``folder``, or continues those that an earlier call began there.

    Returns:
        The counts of the corpus, and the number of texts per row.

    Raises:
        UserError: for bad input.
        OSError: if they cannot be written.
    """
    rows, width = 0, 0
    for _, row in source.rows_with_documents():
        rows, width = rows + 1, len(row)
    work = Tokenising(tokenizer, max_length, words, source.name, prompts.of(width))
    with CorpusWriter(folder, width, tokenizer, words) as writer:
        pieces = _pieces(source, writer.counts.rows, max(1, chunk // width))
        count = min(cores(), 8) if (rows - writer.counts.rows) * width >= shared else 1
        for piece in map(work, pieces) if count == 1 else _shared_out(work, pieces, count):
            writer.add(piece, max_length)
            if progress is not None:
                progress(writer.counts.rows, rows)
    (folder / _RECORD).unlink(missing_ok=True)
    if not writer.narrow and writer.counts.largest <= np.iinfo(np.uint16).max:
        _shrink(folder / "ids.npy")
    return writer.counts, width


def _pieces(source: TextSource, before: int, size: int) -> Iterator[NumberedRows]:
    rows = islice(source.rows_with_documents(), before, None)
    while piece := list(islice(rows, size)):
        yield piece


def _shared_out(work: Tokenising, pieces: Iterator[NumberedRows], count: int) -> Iterator[Piece]:
    """The pieces that ``work`` makes in ``count`` processes, in their order."""
    early: dict[int, Piece] = {}
    turn = 0
    with started(count, _work, _begin, work) as workers:
        for (number, _), piece in workers.done(enumerate(pieces), lambda: None):
            early[number] = piece
            while turn in early:
                yield early.pop(turn)
                turn += 1


_worker: Tokenising | None = None
"""In a worker process: how it tokenises."""


def _begin(work: Tokenising) -> None:
    global _worker
    _worker = work


def _work(task: tuple[int, NumberedRows]) -> Piece:
    if _worker is None:
        raise RuntimeError("this process has no tokenizer")
    return _worker(task[1])


def _shrink(path: Path) -> None:
    """Writes ids that all fit into 16 bits again, as 16 bits."""
    wide = np.load(path, mmap_mode="r")
    narrow = path.with_suffix(".narrow")
    small = GrowingArray(narrow, np.uint16)
    small.restart()
    for start in range(0, len(wide), 1 << 24):
        small.add(wide[start : start + (1 << 24)].astype(np.uint16))
    small.close()
    narrow.replace(path)
