"""A tokenised corpus: every text's ids made once, kept on disk with a checksum, and memory-mapped."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError, reason
from opencse.io import hash_files, lock, standing
from opencse.progress import Count, Say
from opencse.text.column_prompts import ColumnPrompts
from opencse.text.given import TextSource
from opencse.text.tokenising import CHUNK, SHARED, count_duplicates, has_begun, text_key, write_arrays
from opencse.text.tokenizer import Ids, TokenisedText, Tokenizer, WordNumbers

__all__ = ["Corpus", "CorpusFacts", "cache_root", "describe_cache", "text_key", "tokenise"]

_FORMAT = 2
_CHUNK, _SHARED = CHUNK, SHARED
_ARRAYS = ("ids", "offsets", "keys", "documents")
_WORDS = "words"
_FACTS, _CHECKSUM = "facts.json", "checksum"
_UNFINISHED, _LOCKS = ".tmp", "locks"
_FORGOTTEN = 86_400
_TRIES = 5
_ANOTHER_FOLDER = "make room there, or name another folder in the environment variable OPENCSE_CACHE"


@dataclass(frozen=True)
class CorpusFacts:
    """Counts worth telling the user before training starts."""

    source: str
    fingerprint: str
    rows: int
    width: int
    tokens: int
    at_limit: int
    duplicates: int
    documents: int
    max_length: int


@dataclass(frozen=True)
class Corpus:
    """M rows of C texts, as token ids.

    Attributes:
        ids: all ids, concatenated in row-major order of (row, column).
        offsets: (M * C + 1,) starts of each text in ``ids``.
        keys: (M, C) hash of each text; equal texts have equal keys.
        documents: (M,) document number of each row (all zero where the text is not running text).
        facts: counts.
        words: for each of ``ids`` the number of its word in its text, -1 for special tokens; None if not asked for.
        unpooled: how many first tokens of each column's texts pooling leaves out (those of a prompt); empty for none.
    """

    ids: NDArray[np.integer]
    offsets: NDArray[np.int64]
    keys: NDArray[np.int64]
    documents: NDArray[np.int32]
    facts: CorpusFacts
    words: WordNumbers | None = None
    unpooled: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def width(self) -> int:
        """Texts in a row (C): 1 sentences, 2 pairs, 3 triples."""
        return int(self.keys.shape[1])

    def text_ids(self, row: int, column: int) -> Ids:
        """The ids of one text, as a copy."""
        at = row * self.width + column
        return np.array(self.ids[self.offsets[at] : self.offsets[at + 1]], dtype=np.int32)

    def every_text(self) -> Iterator[NDArray[np.integer]]:
        """The ids of each text, row after row; read them, do not write to them."""
        for start, end in pairwise(self.offsets):
            yield self.ids[start:end]

    def text(self, row: int, column: int) -> TokenisedText:
        """One text: its ids, and their words if the corpus has them."""
        at = row * self.width + column
        words = None if self.words is None else np.array(self.words[self.offsets[at] : self.offsets[at + 1]])
        return TokenisedText(self.text_ids(row, column), words)


def cache_root() -> Path:
    """Where tokenised corpora are kept.

    ``$OPENCSE_CACHE``, else ``$XDG_CACHE_HOME/opencse``, else ``~/.cache/opencse``.

    Raises:
        UserError: if none of them can be told.
    """
    if folder := os.environ.get("OPENCSE_CACHE"):
        return Path(folder)
    if folder := os.environ.get("XDG_CACHE_HOME"):
        return Path(folder) / "opencse"
    try:
        return Path.home() / ".cache" / "opencse"
    except RuntimeError as error:
        raise UserError(f"no folder for the token cache ({reason(error)}); {_ANOTHER_FOLDER}") from None


def describe_cache() -> str:
    """Where the token cache is, its size and the room left there, or why it cannot be used; never an error."""
    try:
        folder = cache_root()
        size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) if folder.is_dir() else 0
        parent = standing(folder)
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
    progress: Count | None = None,
    say: Say | None = None,
) -> Corpus:
    """The corpus of ``source``, from the cache if it was made before.

    What the cache holds is checked against its SHA-256 whenever it is opened; damaged, it is made again.

    Args:
        source: what to read.
        tokenizer: makes the ids.
        max_length: longest text in ids, special tokens counted.
        prompts: put before the texts, as the encoder reads them; their words are no words of the texts.
        words: keep the word of every id too.
        cache: folder of the cache, ``cache_root()`` by default.
        progress: called with (rows done, rows in all).
        say: hears of damage to the cache; a warning by default.

    Raises:
        UserError: for bad input, or a cache folder that cannot be written.
    """
    fingerprint = source.fingerprint()
    parts: list[object] = [_FORMAT, fingerprint, tokenizer.fingerprint(), max_length]
    prompts = prompts or ColumnPrompts()
    parts += ([_WORDS] if words else []) + ([asdict(prompts)] if prompts else [])
    folder = (cache or cache_root()) / "corpora" / hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
    kept = _open(folder, words)
    if kept is None:
        if folder.exists():
            told = f"{folder}: this part of the token cache is damaged (its checksum is another); it is made again"
            warnings.warn(told, stacklevel=2) if say is None else say(told)
        with _begun(folder) as unfinished:
            facts = _write(source, fingerprint, unfinished, tokenizer, max_length, prompts, words, progress)
            kept = _keep(facts, words, unfinished, folder)
    return replace(kept, facts=replace(kept.facts, source=source.name))


def _open(folder: Path, words: bool) -> Corpus | None:
    """The corpus in ``folder``, memory-mapped; None if there is none or it is damaged."""
    try:
        if (folder / _CHECKSUM).read_text(encoding="utf-8") != _checksum(folder, words):
            return None
        facts = CorpusFacts(**json.loads((folder / _FACTS).read_text(encoding="utf-8")))
        return Corpus(**{name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in _names(words)}, facts=facts)
    except (OSError, EOFError, ValueError, TypeError):
        return None


def _checksum(folder: Path, words: bool) -> str:
    return hash_files(folder, [folder / _FACTS, *(folder / f"{name}.npy" for name in _names(words))])


def _names(words: bool) -> tuple[str, ...]:
    return (*_ARRAYS, _WORDS) if words else _ARRAYS


def _write(
    source: TextSource,
    fingerprint: str,
    unfinished: Path,
    tokenizer: Tokenizer,
    max_length: int,
    prompts: ColumnPrompts,
    words: bool,
    progress: Count | None,
) -> CorpusFacts:
    sizes = {"chunk": _CHUNK, "shared": _SHARED}
    try:
        made, width = write_arrays(
            source, unfinished, tokenizer, max_length, words=words, progress=progress, prompts=prompts, **sizes
        )
        return CorpusFacts(
            source=source.name,
            fingerprint=fingerprint,
            rows=made.rows,
            width=width,
            tokens=made.tokens,
            at_limit=made.at_limit,
            duplicates=count_duplicates(unfinished / "keys.npy"),
            documents=made.documents if made.last > 0 else 0,
            max_length=max_length,
        )
    except OSError as error:
        raise _unwritable(unfinished, error) from None


@contextmanager
def _begun(folder: Path) -> Iterator[Path]:
    """A folder beside ``folder`` to write to, so that a cache without room for one is told of before the work.

    It is what a killed process left of the same corpus, unless another process is at work on it; what is made stays for
    the next one if this one is broken off.
    """
    unfinished = folder.with_name(f"{folder.name}{_UNFINISHED}")
    held = -1
    try:
        place = folder.parent.parent / _LOCKS / folder.name
        place.parent.mkdir(parents=True, exist_ok=True)
        held = os.open(place, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            lock(held)
            alone = True
        except OSError:
            alone = False
            unfinished = folder.with_name(f"{folder.name}.{uuid.uuid4().hex[:8]}{_UNFINISHED}")
        unfinished.mkdir(parents=True, exist_ok=True)
        os.utime(unfinished)  # what a killed process left long ago is gone on with, not swept away
        for other in folder.parent.glob(f"*{_UNFINISHED}"):
            with suppress(FileNotFoundError):  # of a process that has ended its work since
                if time.time() - other.stat().st_mtime > _FORGOTTEN:  # of a process that was killed
                    shutil.rmtree(other, ignore_errors=True)
    except OSError as error:
        if held >= 0:
            os.close(held)
        raise _unwritable(folder, error) from None
    try:
        yield unfinished
    finally:
        if not alone or not has_begun(unfinished):
            shutil.rmtree(unfinished, ignore_errors=True)
        os.close(held)


def _keep(facts: CorpusFacts, words: bool, unfinished: Path, folder: Path) -> Corpus:
    """The arrays in ``unfinished`` moved to ``folder``, whole or not at all, and opened from there."""
    try:
        (unfinished / _FACTS).write_text(json.dumps(asdict(facts)), encoding="utf-8")
        (unfinished / _CHECKSUM).write_text(_checksum(unfinished, words), encoding="utf-8")
        _place(unfinished, folder, words)
    except OSError as error:
        raise _unwritable(folder, error) from None
    for attempt in range(_TRIES):  # another process may put its own, equal one there just now
        if (kept := _open(folder, words)) is not None:
            return kept
        time.sleep(0.05 * attempt)
    raise UserError(f"{folder.parent}: the token cache cannot be read back; {_ANOTHER_FOLDER}")


def _place(unfinished: Path, folder: Path, words: bool) -> None:
    """Moves ``unfinished`` to ``folder``, unless another process has put a whole one there meanwhile."""
    for attempt in range(_TRIES):
        try:
            unfinished.rename(folder)
            return
        except OSError:
            if _open(folder, words) is not None:
                return
            if attempt == _TRIES - 1:
                raise
            if folder.exists():  # damaged; taken away in one step, as another process may do the same
                aside = folder.with_name(f"{folder.name}.{uuid.uuid4().hex[:8]}{_UNFINISHED}")
                with suppress(FileNotFoundError):
                    folder.rename(aside)
                shutil.rmtree(aside, ignore_errors=True)


def _unwritable(folder: Path, error: OSError) -> UserError:
    return UserError(f"{folder.parent}: the token cache cannot be written ({reason(error)}); {_ANOTHER_FOLDER}")
