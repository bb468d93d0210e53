"""A tokenised corpus: every text's ids made once, kept on disk with a checksum, and memory-mapped."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import uuid
import warnings
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError, reason
from opencse.io import hash_files, standing
from opencse.progress import Count, Say
from opencse.text.given import TextSource
from opencse.text.readers import Texts
from opencse.text.tokenizer import Ids, TokenisedText, Tokenizer, WordNumbers

_FORMAT = 2
_CHUNK = 20_000
_ARRAYS = ("ids", "offsets", "keys", "documents")
_WORDS = "words"
_FACTS, _CHECKSUM = "facts.json", "checksum"
_UNFINISHED = ".tmp"
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
    """

    ids: NDArray[np.integer]
    offsets: NDArray[np.int64]
    keys: NDArray[np.int64]
    documents: NDArray[np.int32]
    facts: CorpusFacts
    words: WordNumbers | None = None

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
        words: keep the word of every id too.
        cache: folder of the cache, ``cache_root()`` by default.
        progress: called with (rows done, rows in all).
        say: hears of damage to the cache; a warning by default.

    Raises:
        UserError: for bad input, or a cache folder that cannot be written.
    """
    fingerprint = source.fingerprint()
    parts = json.dumps([_FORMAT, fingerprint, tokenizer.fingerprint(), max_length] + ([_WORDS] if words else []))
    folder = (cache or cache_root()) / "corpora" / hashlib.sha256(parts.encode()).hexdigest()[:32]
    kept = _open(folder, words)
    if kept is None:
        if folder.exists():
            told = f"{folder}: this part of the token cache is damaged (its checksum is another); it is made again"
            warnings.warn(told, stacklevel=2) if say is None else say(told)
        unfinished = _begin(folder)
        try:
            made = _make(source.read(), fingerprint, tokenizer, max_length, words, progress)
            kept = _keep(made, unfinished, folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
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


def _make(
    texts: Texts, fingerprint: str, tokenizer: Tokenizer, max_length: int, words: bool, progress: Count | None
) -> Corpus:
    flat = [text for row in texts.rows for text in row]
    pieces: list[NDArray[np.integer]] = []
    numbers: list[WordNumbers] = []
    lengths = np.zeros(len(flat), dtype=np.int64)
    for start in range(0, len(flat), _CHUNK):
        chunk = flat[start : start + _CHUNK]
        if words:
            found = tokenizer.encode_words(chunk, max_length)
            rows = [text.ids for text in found]
            numbers += [text.words for text in found if text.words is not None]
        else:
            rows = tokenizer.encode(chunk, max_length)
        lengths[start : start + len(rows)] = [len(row) for row in rows]
        pieces.append(np.concatenate(rows))
        if progress is not None:
            progress(min(len(flat), start + _CHUNK) // texts.width, len(texts.rows))
    if not lengths.all():
        wordless = flat[int(lengths.argmin())]
        raise UserError(f"{texts.source}: the tokenizer makes no token of the text {wordless[:40]!r}; drop it")
    ids = np.concatenate(pieces)
    keys = np.fromiter((text_key(text) for text in flat), dtype=np.int64, count=len(flat))
    keys = keys.reshape(len(texts.rows), texts.width)
    documents = np.asarray(texts.documents or [0] * len(texts.rows), dtype=np.int32)
    facts = CorpusFacts(
        source=texts.source,
        fingerprint=fingerprint,
        rows=len(texts.rows),
        width=texts.width,
        tokens=len(ids),
        at_limit=int((lengths == max_length).sum()),
        duplicates=len(keys) - len(np.unique(keys, axis=0)),
        documents=0 if texts.documents is None else len(np.unique(documents)),
        max_length=max_length,
    )
    return Corpus(
        ids=ids.astype(np.uint16) if ids.max() <= np.iinfo(np.uint16).max else ids,
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        keys=keys,
        documents=documents,
        facts=facts,
        words=np.concatenate(numbers) if words else None,
    )


def _begin(folder: Path) -> Path:
    """A folder beside ``folder`` to write to, so that a cache without room for one is told of before the work."""
    unfinished = folder.with_name(f"{folder.name}.{uuid.uuid4().hex[:8]}{_UNFINISHED}")
    try:
        unfinished.mkdir(parents=True)
        for other in folder.parent.glob(f"*{_UNFINISHED}"):
            with suppress(FileNotFoundError):  # of a process that has ended its work since
                if time.time() - other.stat().st_mtime > _FORGOTTEN:  # of a process that was killed
                    shutil.rmtree(other, ignore_errors=True)
    except OSError as error:
        raise _unwritable(folder, error) from None
    return unfinished


def _keep(corpus: Corpus, unfinished: Path, folder: Path) -> Corpus:
    """``corpus`` written to ``folder``, whole or not at all, and opened from there."""
    words = corpus.words is not None
    arrays: dict[str, NDArray[Any]] = dict(
        zip(_ARRAYS, (corpus.ids, corpus.offsets, corpus.keys, corpus.documents), strict=True)
    )
    if corpus.words is not None:
        arrays[_WORDS] = corpus.words
    try:
        for name, array in arrays.items():
            np.save(unfinished / f"{name}.npy", array)
        (unfinished / _FACTS).write_text(json.dumps(asdict(corpus.facts)), encoding="utf-8")
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


def text_key(text: str) -> int:
    """A 64-bit hash of a text, white space collapsed; the same on every machine and in every process."""
    digest = hashlib.blake2b(" ".join(text.split()).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)
