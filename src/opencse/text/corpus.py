"""Tokenises a text once: its ids are kept on disk with a checksum, and memory-mapped."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from opencse.errors import UserError, explaining, reason
from opencse.files import hash_files, nearest_existing
from opencse.home import in_home
from opencse.progress import Count, Say, uncounted
from opencse.text.duplicates import count_duplicates
from opencse.text.given import TextSource
from opencse.text.labels import RowLabels
from opencse.text.template import ColumnPrompts
from opencse.text.tokenising import text_key, write_arrays
from opencse.text.tokenizer import Ids, TokenisedText, Tokenizer, WordNumbers

__all__ = ["Corpus", "CorpusFacts", "cache_root", "describe_cache", "text_key", "tokenise"]

_FORMAT = 2
_ARRAYS = ("ids", "offsets", "keys", "documents")
_WORDS, _LABELS = "words", "labels"
_FACTS, _CHECKSUM = "facts.json", "checksum"
_UNFINISHED, _LOCKS = ".tmp", "locks"
_FORGOTTEN = 86_400
_ANOTHER_FOLDER = "name another folder in the environment variable OPENCSE_CACHE"


@dataclass(frozen=True)
class CorpusFacts:
    """Counts of a tokenised text that are reported before training starts.

    ``scale`` is what the scores of its rows were divided by, ``classes`` are the names of the rows' classes; see
    `opencse.text.labels`.
    """

    source: str
    fingerprint: str
    rows: int
    width: int
    tokens: int
    at_limit: int
    duplicates: int
    documents: int
    max_length: int
    scale: float | None = None
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", tuple(self.classes))  # a list where it was read from a file


@dataclass(frozen=True)
class Corpus:
    """A tokenised text: M rows of C texts, as token ids.

    Attributes:
        ids: all ids, concatenated in row-major order of (row, column).
        offsets: (M * C + 1,) starts of each text in ``ids``.
        keys: (M, C) hash of each text; equal texts have equal keys.
        documents: (M,) document number of each row (all zero where the text is not running text).
        facts: counts.
        words: for each of ``ids`` the number of its word in its text, -1 for special tokens; None if not requested.
        labels: (M,) the label of each row as a number, see `opencse.text.labels.RowLabels`; None without labels.
        unpooled: how many first tokens of each column's texts pooling leaves out (those of a prompt); empty for none.
    """

    ids: NDArray[np.integer]
    offsets: NDArray[np.int64]
    keys: NDArray[np.int64]
    documents: NDArray[np.int32]
    facts: CorpusFacts
    words: WordNumbers | None = None
    labels: NDArray[np.float64] | None = None
    unpooled: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def width(self) -> int:
        """Texts in a row (C): 1 sentences, 2 pairs, 3 triples."""
        return int(self.keys.shape[1])

    def text_ids(self, row: int, column: int) -> Ids:
        """The ids of one text, as a copy."""
        text = row * self.width + column
        return np.array(self.ids[self.offsets[text] : self.offsets[text + 1]], dtype=np.int32)

    def every_text(self) -> Iterator[NDArray[np.integer]]:
        """The ids of each text, row after row; the arrays are read-only."""
        for start, end in pairwise(self.offsets):
            yield self.ids[start:end]

    def text(self, row: int, column: int) -> TokenisedText:
        """One text: its ids, and their words if the corpus has them."""
        text = row * self.width + column
        words = None if self.words is None else np.array(self.words[self.offsets[text] : self.offsets[text + 1]])
        return TokenisedText(self.text_ids(row, column), words)


def cache_root() -> Path:
    """The folder in which tokenised texts are kept.

    ``$OPENCSE_CACHE``, else ``$XDG_CACHE_HOME/opencse``, else ``~/.cache/opencse``.

    Raises:
        UserError: if none of them is known.
    """
    if folder := os.environ.get("OPENCSE_CACHE"):
        return Path(in_home(folder))
    if folder := os.environ.get("XDG_CACHE_HOME"):
        return Path(in_home(folder)) / "opencse"
    with explaining("no folder for the token cache", RuntimeError, fix=_ANOTHER_FOLDER):
        return Path.home() / ".cache" / "opencse"


def describe_cache() -> str:
    """Describes the token cache in one line: its folder, size and free space, or why it cannot be used."""
    try:
        folder = cache_root()
        size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) if folder.is_dir() else 0
        parent = nearest_existing(folder)
        if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
            return f"{folder} (cannot be written: {parent} is {'read-only' if parent.is_dir() else 'a file'})"
        return f"{folder} ({size / 1e6:,.1f} MB; {shutil.disk_usage(parent).free / 1e9:,.1f} GB free)"
    except OSError as error:
        return f"{folder} (cannot be read: {reason(error)}; {_ANOTHER_FOLDER})"
    except UserError as error:
        return str(error)


def tokenise(
    source: TextSource,
    tokenizer: Tokenizer,
    max_length: int,
    *,
    prompts: ColumnPrompts | None = None,
    words: bool = False,
    cache: Path | None = None,
    progress: Count = uncounted,
    say: Say | None = None,
) -> Corpus:
    """Tokenises ``source``, or opens it from the cache if that was done before.

    The content of the cache is checked against its SHA-256 whenever it is opened; if damaged, it is made again.

    Args:
        source: what to read.
        tokenizer: makes the ids.
        max_length: longest text in ids, special tokens counted.
        prompts: put before the texts, as the encoder reads them; their words are not counted as words of the texts.
        words: keep the word of every id too.
        cache: folder of the cache, ``cache_root()`` by default.
        progress: called with (rows done, rows in all).
        say: called with one line if the cache is damaged; by default a warning is issued.

    Raises:
        UserError: for bad input, or a cache folder that cannot be written.
    """
    fingerprint = source.fingerprint()
    parts: list[object] = [_FORMAT, fingerprint, tokenizer.fingerprint(), max_length]
    prompts = prompts or ColumnPrompts()
    parts += ([_WORDS] if words else []) + ([asdict(prompts)] if prompts else [])
    folder = (cache or cache_root()) / "corpora" / hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
    more = ((_WORDS,) if words else ()) + ((_LABELS,) if source.label else ())
    corpus = _open(folder, more)
    if corpus is None:
        try:
            with _unfinished_folder(folder) as unfinished:
                corpus = _open(folder, more)  # another process may have made it meanwhile
                if corpus is None:
                    if folder.exists():
                        line = f"{folder}: this part of the token cache is damaged (its checksum is another)"
                        (say or warnings.warn)(f"{line}; it is made again")
                        shutil.rmtree(folder)
                    labels = source.row_labels()
                    if labels is not None:
                        np.save(unfinished / f"{_LABELS}.npy", labels.values)
                    write_arrays(
                        source, unfinished, tokenizer, max_length, words=words, progress=progress, prompts=prompts
                    )
                    facts = _facts(source, labels, fingerprint, unfinished, max_length)
                    (unfinished / _FACTS).write_text(json.dumps(asdict(facts)), encoding="utf-8")
                    # last: what has a checksum is whole
                    (unfinished / _CHECKSUM).write_text(_checksum(unfinished, more), encoding="utf-8")
                    unfinished.rename(folder)
                    corpus = _open(folder, more)
        except OSError as error:
            room = "make room there, or " if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
            raise UserError(
                f"{folder.parent}: the token cache cannot be written ({reason(error)}); {room}{_ANOTHER_FOLDER}"
            ) from None
        if corpus is None:
            raise UserError(
                f"{folder.parent}: the token cache cannot be read back; make room there, or {_ANOTHER_FOLDER}"
            )
    return replace(corpus, facts=replace(corpus.facts, source=source.name))


def _open(folder: Path, more: tuple[str, ...]) -> Corpus | None:
    """The corpus in ``folder``, memory-mapped; None if there is none or it is damaged."""
    try:
        if (folder / _CHECKSUM).read_text(encoding="utf-8") != _checksum(folder, more):
            return None
        facts = CorpusFacts(**json.loads((folder / _FACTS).read_text(encoding="utf-8")))
        return Corpus(
            **{name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in (*_ARRAYS, *more)}, facts=facts
        )
    except (OSError, EOFError, ValueError, TypeError):
        return None


def _checksum(folder: Path, more: tuple[str, ...]) -> str:
    return hash_files(folder, [folder / _FACTS, *(folder / f"{name}.npy" for name in (*_ARRAYS, *more))])


def _facts(
    source: TextSource, labels: RowLabels | None, fingerprint: str, folder: Path, max_length: int
) -> CorpusFacts:
    """Counts the arrays that were written."""
    ids, offsets, keys, documents = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in _ARRAYS)
    return CorpusFacts(
        source=source.name,
        fingerprint=fingerprint,
        rows=len(keys),
        width=keys.shape[1],
        tokens=len(ids),
        at_limit=int((np.diff(offsets) == max_length).sum()),
        duplicates=count_duplicates(keys),
        documents=int((np.diff(documents, prepend=-1) != 0).sum()) if documents[-1] > 0 else 0,
        max_length=max_length,
        scale=None if labels is None else labels.scale,
        classes=() if labels is None else labels.classes,
    )


@contextmanager
def _unfinished_folder(folder: Path) -> Iterator[Path]:
    """Gives a new folder next to ``folder`` to write to, for the block; other processes wait meanwhile."""
    locks = folder.parent.parent / _LOCKS
    locks.mkdir(parents=True, exist_ok=True)
    unfinished = folder.with_name(f"{folder.name}{_UNFINISHED}")
    with FileLock(locks / folder.name):
        for other in folder.parent.glob(f"*{_UNFINISHED}"):
            if other == unfinished or time.time() - other.stat().st_mtime > _FORGOTTEN:  # of a process that was killed
                shutil.rmtree(other, ignore_errors=True)
        unfinished.mkdir(parents=True)
        try:
            yield unfinished
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
