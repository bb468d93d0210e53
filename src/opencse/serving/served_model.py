"""A model as it is served: texts or token ids in, vectors out, together with others' requests."""

from __future__ import annotations

import ctypes
import re
import sys
import threading
from asyncio import wrap_future
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from opencse.encoder.encoder import SentenceEncoder, Vectors
from opencse.encoder.fingerprint import fingerprint
from opencse.serving.batching import Batcher
from opencse.serving.errors import ApiError, overloaded
from opencse.serving.limits import Limits
from opencse.serving.metrics import Metrics
from opencse.serving.worker import Worker
from opencse.text.tokenizer import Ids

_SLICE = 64
"""Texts that are tokenised at a time, so that a short request need not wait for a long one."""
_SPACE = re.compile(r"\s")
_SHORT = 2_000
"""Characters that are tokenised in well under a millisecond."""


_CHARACTERS, _FEWEST_CHARACTERS, _GROWTH = 64, 16_384, 4
"""Of a long text so many are tokenised for each id that is read, and so many at least, more by
this factor while they give fewer ids: tokenising 4 MB at once would take 600 MB."""
_LONG = 2**20
"""Characters after which memory is given back to the system."""


def _beginning(text: str, room: int) -> str:
    """The first ``room`` characters or fewer, whole words where there are spaces between words."""
    if len(text) <= room:
        return text
    spaces = list(_SPACE.finditer(text, room // 2, room))
    return text[: spaces[-1].start() if spaces else room]


def _release() -> None:
    """Gives memory that is not used any more back to the system, where the C library can (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


@dataclass(frozen=True)
class Given:
    """What a request wants encoded, as token ids.

    Attributes:
        rows: ids of each text, as `SentenceEncoder.encode` would use them.
        cut: which texts were longer than the model reads, counted from 0.
        unpooled: how many first tokens of each text pooling leaves out.
    """

    rows: list[Ids]
    cut: list[int]
    unpooled: int = 0

    @property
    def tokens(self) -> int:
        """Ids in all, special tokens counted."""
        return sum(map(len, self.rows))


class ServedModel:
    """One encoder, its tokenizer's thread and its encoding thread.

    Attributes:
        name: what requests call it.
        encoder: the model; nobody else may use it meanwhile.
        fingerprint: of all that makes its vectors.
    """

    def __init__(self, name: str, encoder: SentenceEncoder, limits: Limits, metrics: Metrics) -> None:
        self.name = name
        self.encoder = encoder
        self.fingerprint = fingerprint(encoder)
        encoder.encode("What is made at the first text is made before two threads ask for it.")
        self._limits = limits
        self._metrics = metrics
        self._ids = len(torch.as_tensor(encoder.backbone.get_input_embeddings().weight))
        self._batcher = Batcher(encoder, metrics.of_model(name))
        self._tokenizing = Worker("opencse-tokenizer")
        self._tokenizer = threading.Lock()
        metrics.waits(name, lambda: self._batcher.waiting)

    async def read(self, inputs: Sequence[str] | Sequence[Sequence[int]], *, prompt: str, cut: bool) -> Given:
        """The token ids of texts with ``prompt`` before each, or the given ids checked.

        Raises:
            ApiError: if one is too long and is not to be cut, an id is not in the vocabulary, or too much waits.
        """
        self._admit()
        rows: list[Ids] = []
        long: list[int] = []
        for start in range(0, len(inputs), _SLICE):
            part = inputs[start : start + _SLICE]
            texts = [one for one in part if isinstance(one, str)]
            if texts:
                some, over = await self._tokens(texts, prompt)
            else:
                some, over = self._checked(part, start)
            if over and not cut:
                raise self._too_long(start + over[0][0], over[0][1])
            rows += some
            long += [start + place for place, _ in over]
        texts_given = bool(inputs) and isinstance(inputs[0], str)
        return Given(rows, long, self.encoder.unpooled(prompt) if texts_given else 0)

    async def vectors(self, given: Given) -> Vectors:
        """(n, dimension) float32, as `SentenceEncoder.encode` makes them.

        Raises:
            ApiError: if too much waits.
        """
        self._admit()
        return await wrap_future(self._batcher.submit(given.rows, given.unpooled))

    @property
    def alive(self) -> bool:
        """Whether its threads run."""
        return self._batcher.alive and self._tokenizing.alive

    def close(self) -> None:
        """Answers what waits, and ends the threads."""
        self._tokenizing.close()
        self._batcher.close()

    def _admit(self) -> None:
        waiting = self._batcher.waiting
        if waiting >= self._limits.waiting_texts:
            seconds = min(60, round(self._batcher.seconds_left))
            raise overloaded(f"{waiting:,} texts wait for {self.name} already; try again in a while", seconds)

    async def _tokens(self, texts: list[str], prompt: str) -> tuple[list[Ids], list[tuple[int, int]]]:
        """`_tokenized`, here where that takes less than handing it to a thread, and the tokenizer is free."""
        if sum(map(len, texts)) <= _SHORT and self._tokenizer.acquire(blocking=False):
            try:
                return self._tokenized(texts, prompt)
            finally:
                self._tokenizer.release()
        return await self._tokenizing.call(partial(self._alone, texts, prompt))

    def _alone(self, texts: list[str], prompt: str) -> tuple[list[Ids], list[tuple[int, int]]]:
        with self._tokenizer:
            tokenized = self._tokenized(texts, prompt)
        if sum(map(len, texts)) > _LONG:
            _release()
        return tokenized

    def _tokenized(self, texts: list[str], prompt: str) -> tuple[list[Ids], list[tuple[int, int]]]:
        """Ids of each text, and (place, tokens at least) of those that were truncated."""
        encoder, most = self.encoder, self.encoder.max_length
        over: list[tuple[int, int]] = []
        room = max(_FEWEST_CHARACTERS, _CHARACTERS * most)
        begins = [_beginning(text, room) if encoder.tokenizer.reads_from_left else text for text in texts]
        rows = encoder.tokenize(begins, prompt)
        for place, text in enumerate(texts):
            larger = room
            while len(begins[place]) < len(text) and len(rows[place]) < most:  # hardly a token in it
                larger *= _GROWTH
                begins[place] = _beginning(text, larger)
                rows[place] = encoder.tokenize([begins[place]], prompt)[0]
        full = [i for i, row in enumerate(rows) if len(row) >= most]
        whole = encoder.tokenizer.encode([prompt + begins[i] for i in full], None)
        for i, row in zip(full, whole, strict=True):
            unread = bool(texts[i][len(begins[i]) :].strip())
            if len(row) > len(rows[i]) or unread:
                over.append((i, len(row) + unread))
        return rows, over

    def _checked(self, given: Sequence[object], start: int) -> tuple[list[Ids], list[tuple[int, int]]]:
        rows: list[Ids] = []
        over: list[tuple[int, int]] = []
        for place, ids in enumerate(given):
            assert isinstance(ids, list)
            wrong = next((number for number in ids if not 0 <= number < self._ids), None)
            if wrong is not None:
                raise ApiError(
                    400,
                    f"input {start + place} holds token id {str(wrong)[:30]}, and {self.name} has ids 0 to "
                    f"{self._ids - 1:,}; make ids with this model's own tokenizer, or send the text (LangChain: "
                    "check_embedding_ctx_length=False)",
                    param="input",
                    code="invalid_token_id",
                )
            if len(ids) > self.encoder.max_length:
                over.append((place, len(ids)))
            rows.append(np.asarray(ids[: self.encoder.max_length], dtype=np.int32))
        return rows, over

    def _too_long(self, place: int, length: int) -> ApiError:
        return ApiError(
            400,
            f"input {place} has at least {length:,} tokens, and {self.name} reads at most "
            f'{self.encoder.max_length:,}; shorten it, or give "truncate": true to have it cut',
            param="input",
            code="context_length_exceeded",
        )
