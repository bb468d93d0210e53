"""Tokenises texts with a table of the ids of their words: each word is tokenised only once.

With WordPiece and BERT's normaliser and splitting (lower case, accents, punctuation) the ids of a text are the ids of
its parts between spaces, concatenated. So a table of words gives the tokenizer's ids, several times as fast.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

_LONGEST = 40
"""Largest number of characters of a word in the table; longer ones (links, text without spaces) rarely repeat."""
_KEPT = 200_000
"""Number of words in the table; a full table is emptied."""
_HEAD = 64
"""Characters per id in the part of a long text that is tokenised first."""


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
