"""Writes the token ids of a text of any length to arrays on the disk.

Memory does not grow with the text. Long texts are tokenised by several processes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError
from opencse.files import npy_header
from opencse.progress import Count
from opencse.text.given import TextSource
from opencse.text.template import ColumnPrompts
from opencse.text.tokenizer import Tokenizer, WordNumbers
from opencse.workers import cores, started

CHUNK = 20_000
"""Texts that are tokenised together."""
SHARED = 2_000_000
"""Number of texts from which several processes are worth starting."""
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


def text_key(text: str) -> int:
    """A 64-bit hash of a text, white space collapsed; the same on every machine and in every process."""
    digest = hashlib.blake2b(" ".join(text.split()).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


class Tokenising:
    """Tokenises rows into pieces; ``prompts`` come before the texts of the columns."""

    def __init__(
        self, tokenizer: Tokenizer, max_length: int, words: bool, source: str, prompts: tuple[str, ...]
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

    def __init__(self, path: Path, dtype: Any, columns: int | None) -> None:  # noqa: ANN401
        self._dtype, self._columns, self._rows = np.dtype(dtype), columns, 0
        self._stream = path.open("wb")
        self._write_header()

    def _write_header(self) -> None:
        shape = (self._rows,) if self._columns is None else (self._rows, self._columns)
        self._stream.write(npy_header(self._dtype, shape))

    def add(self, values: NDArray[Any]) -> None:
        """Appends rows."""
        self._stream.write(np.ascontiguousarray(values, dtype=self._dtype).tobytes())
        self._rows += values.size // (self._columns or 1)

    def close(self) -> None:
        """Writes the final header, which is as long as the first one, and closes."""
        self._stream.seek(0)
        self._write_header()
        self._stream.close()


def write_arrays(
    source: TextSource,
    folder: Path,
    tokenizer: Tokenizer,
    max_length: int,
    *,
    words: bool,
    progress: Count,
    prompts: ColumnPrompts,
) -> None:
    """Writes the arrays of ``source`` to ``folder``; those of `opencse.text.corpus.Corpus`.

    Raises:
        UserError: for bad input.
        OSError: if they cannot be written.
    """
    rows, width, done, tokens = 0, 0, 0, 0
    for _, row in source.rows_with_documents():
        rows, width = rows + 1, len(row)
    work = Tokenising(tokenizer, max_length, words, source.name, prompts.of(width))
    kinds = {"ids": np.uint16 if tokenizer.vocabulary_size <= 2**16 else np.int32, "offsets": np.int64,
             "keys": np.int64, "documents": np.int32} | ({"words": np.int16} if words else {})  # fmt: skip
    with ExitStack() as opened:
        arrays = {
            name: opened.enter_context(
                closing(GrowingArray(folder / f"{name}.npy", kind, width if name == "keys" else None))
            )
            for name, kind in kinds.items()
        }
        arrays["offsets"].add(np.zeros(1, dtype=np.int64))
        count = min(cores(), 8) if rows * width >= SHARED else 1
        pieces = _pieces(source, max(1, CHUNK // width))
        for piece in map(work, pieces) if count == 1 else _shared_out(work, pieces, count):
            arrays["ids"].add(piece.ids)
            arrays["offsets"].add(tokens + np.cumsum(piece.lengths))
            arrays["keys"].add(piece.keys)
            arrays["documents"].add(piece.documents)
            if piece.words is not None:
                arrays["words"].add(piece.words)
            done, tokens = done + len(piece.documents), tokens + len(piece.ids)
            progress(done, rows)


def _pieces(source: TextSource, size: int) -> Iterator[NumberedRows]:
    rows = iter(source.rows_with_documents())
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
