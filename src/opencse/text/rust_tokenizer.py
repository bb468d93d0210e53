"""Turns texts into token ids with a tokenizer of the tokenizers library, which needs neither torch nor transformers.

With WordPiece and BERT's normaliser and splitting (lower case, accents, punctuation) the ids of a text are the ids of
its parts between spaces, concatenated. So a table of words gives the tokenizer's ids, several times as fast.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from opencse.workers import cores

if TYPE_CHECKING:
    from tokenizers import Encoding
    from tokenizers import Tokenizer as Backend

Ids = NDArray[np.int32]
_TRUNCATING = threading.Lock()
"""One lock for all tokenizers: a tokenizer with a lock of its own could not be copied."""
_MANY = 64
"""Number of texts from which a table of words saves time."""
_THREADS = 8
"""Number of threads from which the tokenizers library is faster than a table of words, which uses one."""
_LONGEST = 40
"""Largest number of characters of a word in the table; longer ones (links, text without spaces) rarely repeat."""
_KEPT = 200_000
"""Number of words in the table; a full table is emptied."""
_HEAD = 64
"""Characters per id in the part of a long text that is tokenised first."""


def threads() -> int:
    """Threads that the tokenizers library uses: one for each core, unless the environment says otherwise."""
    if os.environ.get("TOKENIZERS_PARALLELISM", "").lower() in ("0", "off", "false", "f", "no", "n"):
        return 1
    count = os.environ.get("RAYON_NUM_THREADS", "")
    return int(count) if count.isdecimal() and int(count) else cores()


class TokenCounter(Protocol):
    """Turns texts into ids; a `RustTokenizer`, or a `Tokenizer` of `opencse.text.tokenizer`."""

    @property
    def vocabulary_size(self) -> int:
        """Entries of the vocabulary."""

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids of the special tokens."""

    @property
    def unknown_id(self) -> int | None:
        """The id of the unknown token."""

    @property
    def reads_from_left(self) -> bool:
        """Whether a text that is too long loses its end."""

    def encode(self, texts: Sequence[str], max_length: int | None) -> list[Ids]:
        """Tokenises each text, with special tokens."""


class WordIds:
    """The table of one tokenizer.

    Args:
        backend: a copy for this table alone, without truncation and padding; see `WordIds.fits`.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._known: dict[str, bytes] = {"": b""}
        encoded = backend.encode("a")
        full, special = encoded.ids, encoded.special_tokens_mask
        start, stop = special.index(0), len(special) - special[::-1].index(0)
        self._before, self._after = _bytes(full[:start]), _bytes(full[stop:])
        self.special = sum(special)

    @staticmethod
    def fits(backend: Backend) -> bool:
        """Whether the ids of a text are the ids of its parts between spaces, for this tokenizer."""
        described = json.loads(backend.to_str())
        kinds = [(described[part] or {}).get("type") for part in ("normalizer", "pre_tokenizer", "model")]
        if kinds != ["BertNormalizer", "BertPreTokenizer", "WordPiece"]:
            return False
        if (described["post_processor"] or {}).get("type") not in (None, "TemplateProcessing", "BertProcessing"):
            return False
        return not any(" " in token["content"] for token in described["added_tokens"])

    def encode(self, texts: Sequence[str], limit: int, *, from_left: bool = False) -> list[NDArray[np.int32]]:
        """Tokenises each text, with special tokens, to at most ``limit`` ids.

        Args:
            texts: any number of them.
            limit: at least one more than there are special tokens.
            from_left: longer ones lose their beginning instead of their end.
        """
        room = limit - self.special
        if from_left:
            return [self._truncated(ids, room, from_left=True) for ids in self._bodies(texts)]
        heads = [text[: text.rfind(" ", 0, _HEAD * room) + 1] if len(text) > _HEAD * room else text for text in texts]
        bodies = self._bodies(heads)
        short = [i for i, body in enumerate(bodies) if len(body) < 4 * room and len(heads[i]) < len(texts[i])]
        for i, body in zip(short, self._bodies([texts[i] for i in short]), strict=True):
            bodies[i] = body
        return [self._truncated(body, room) for body in bodies]

    def _truncated(self, body: bytes, room: int, *, from_left: bool = False) -> NDArray[np.int32]:
        if len(body) > 4 * room:
            body = body[len(body) - 4 * room :] if from_left else body[: 4 * room]
        return np.frombuffer(bytearray().join((self._before, body, self._after)), dtype=np.int32)

    def _bodies(self, texts: Sequence[str]) -> list[bytes]:
        """Ids of each text without special tokens, as bytes."""
        words = [text.split(" ") for text in texts]
        if len(self._known) > _KEPT:
            self._known = {"": b""}
        known = self._known  # another thread may replace the table meanwhile
        fresh = list(set(chain.from_iterable(words)).difference(known))
        encodings = self._backend.encode_batch_fast(fresh, add_special_tokens=False)
        new_words = {word: _bytes(ids.ids) for word, ids in zip(fresh, encodings, strict=True)}
        known.update((word, ids) for word, ids in new_words.items() if len(word) <= _LONGEST)
        look: Callable[[str], bytes] = known.__getitem__
        if any(len(word) > _LONGEST for word in fresh):
            look = lambda word: new_words[word] if word in new_words else known[word]  # noqa: E731
        return [b"".join(map(look, row)) for row in words]


def _bytes(ids: Sequence[int]) -> bytes:
    return np.asarray(ids, dtype=np.int32).tobytes()


class RustTokenizer:
    """Tokenises texts with a private copy of a backend, to any length.

    A backend that nobody else uses need not be copied (``copy=False``): its truncation and padding change.

    Example:
        >>> from opencse.model_folder.locate import builtin_folder
        >>> from tokenizers import Tokenizer as Backend
        >>> tokenizer = RustTokenizer(Backend.from_file(str(builtin_folder() / "tokenizer.json")))
        >>> [len(ids) for ids in tokenizer.encode(["a kettle", "a"], max_length=8)]
        [5, 3]

    Attributes:
        backend: the copy; it pads nothing.
        truncation_side: where longer texts lose tokens, ``right`` or ``left``.
        splits_special: whether special tokens inside a text are split like other words.
        characters_per_id: texts are truncated after so many characters for each id of the longest input, before they
            are split into tokens (model2vec); None truncates by ids alone.
        unknown: name of the unknown token; None: that of the backend, if it has one.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        truncation_side: str = "right",
        splits_special: bool = False,
        characters_per_id: int | None = None,
        unknown: str | None = None,
        copy: bool = True,
    ) -> None:
        self.backend = type(backend).from_str(backend.to_str()) if copy else backend
        self.backend.no_padding()
        self.backend.no_truncation()
        self.backend.encode_special_tokens = splits_special
        self.truncation_side = truncation_side
        self.splits_special = splits_special
        self.characters_per_id = characters_per_id
        self.unknown = unknown
        self._limit: int | None = None
        self._words: WordIds | Literal[False] | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A pickled backend forgets whether it splits special tokens."""
        self.__dict__ |= state
        self._words = None
        self.backend.encode_special_tokens = self.splits_special

    @property
    def vocabulary_size(self) -> int:
        """Entries of the vocabulary, added tokens included."""
        return int(self.backend.get_vocab_size())

    @property
    def special_count(self) -> int:
        """Number of special tokens around every text."""
        return int(self.backend.num_special_tokens_to_add(is_pair=False))

    @property
    def reads_from_left(self) -> bool:
        """Whether a text that is too long loses its end, so that its first words decide its ids."""
        return self.truncation_side == "right"

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids of the special tokens."""
        return frozenset(number for number, token in self.backend.get_added_tokens_decoder().items() if token.special)

    @property
    def unknown_id(self) -> int | None:
        """The id that stands for what the vocabulary does not hold; None if there is none."""
        name = self.unknown or getattr(self.backend.model, "unk_token", None)
        return None if name is None else self.backend.token_to_id(name)

    def description(self) -> tuple[object, ...]:
        """Everything that decides the ids of a text, as values with a stable `repr`."""
        with self.truncated(None) as backend:
            parts: tuple[object, ...] = (backend.to_str(), backend.encode_special_tokens, self.truncation_side)
        return parts + (() if self.characters_per_id is None else (self.characters_per_id,))

    def encode(self, texts: Sequence[str], max_length: int | None) -> list[Ids]:
        """Tokenises each text, with special tokens.

        Args:
            texts: any number of them.
            max_length: longest in ids, special tokens counted; longer texts are truncated. None: no limit.
        """
        if len(texts) == 0:
            return []
        texts = self._shortened(texts, max_length)
        one_thread = len(texts) >= _MANY and threads() < _THREADS
        if one_thread and (by_word := self.by_word()) is not None:
            limit = sys.maxsize // 2**16 if max_length is None else max_length
            if limit > by_word.special:
                return by_word.encode(texts, limit, from_left=self.truncation_side == "left")
        with self.truncated(max_length) as backend:
            return [np.asarray(e.ids, dtype=np.int32) for e in backend.encode_batch_fast(list(texts))]

    def encodings(self, texts: Sequence[str], max_length: int | None) -> list[Encoding]:
        """Tokenises each text and returns ids with their places in the text."""
        texts = self._shortened(texts, max_length)
        with self.truncated(max_length) as backend:
            return list(backend.encode_batch(list(texts)))

    def longest_text(self, max_length: int | None) -> int | None:
        """Characters of a text that are read, for a longest input in ids; None: all."""
        return None if self.characters_per_id is None or max_length is None else self.characters_per_id * max_length

    def _shortened(self, texts: Sequence[str], max_length: int | None) -> Sequence[str]:
        longest = self.longest_text(max_length)
        return texts if longest is None else [text[:longest] for text in texts]

    def by_word(self) -> WordIds | None:
        """The table of words, made at its first use; None if this tokenizer allows none."""
        if self._words is None:
            with self.truncated(None) as untruncated:
                fits = WordIds.fits(untruncated)
                copy = type(untruncated).from_str(untruncated.to_str()) if fits else untruncated
            copy.encode_special_tokens = self.splits_special
            self._words = WordIds(copy) if fits else False
        return self._words or None

    @contextmanager
    def truncated(self, max_length: int | None) -> Iterator[Backend]:
        """The backend that truncates texts to ``max_length``; other threads, with perhaps another length, wait."""
        with _TRUNCATING:
            if max_length != self._limit:
                if max_length is None:
                    self.backend.no_truncation()
                else:
                    self.backend.enable_truncation(max_length, direction=self.truncation_side)
                self._limit = max_length
            yield self.backend


def padded(rows: Sequence[NDArray[np.integer]], pad_id: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pads ``rows`` on the right to one batch: (rows, longest) ids and (rows,) lengths.

    >>> ids, lengths = padded([np.array([5, 6]), np.array([7])], pad_id=0)
    >>> ids.tolist(), lengths.tolist()
    ([[5, 6], [7, 0]], [2, 1])
    """
    lengths = np.fromiter((len(row) for row in rows), dtype=np.int64, count=len(rows))
    ids = np.full((len(rows), int(lengths.max())), pad_id, dtype=np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    return ids, lengths
