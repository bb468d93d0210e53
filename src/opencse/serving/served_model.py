"""A served model: its texts are encoded in one thread, the texts of several requests together."""

from __future__ import annotations

import ctypes
import queue
import re
import sys
import threading
import time
from asyncio import wrap_future
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any, TypeVar

import numpy as np

from opencse.arrays import Embeddings
from opencse.encoder.fingerprint import fingerprint
from opencse.encoder.text_encoder import TextEncoder, require_sound_vectors, token_batches, usual_budget
from opencse.kernels.precision import PrecisionName
from opencse.numerals import number_of
from opencse.serving.guard import Metrics
from opencse.serving.requests import ApiError, Limits, overloaded
from opencse.text.rust_tokenizer import Ids

T = TypeVar("T")


class Worker:
    """Calls functions on one thread, in order; cancelled calls are skipped.

    Example:
        >>> import asyncio
        >>> worker = Worker("example")
        >>> asyncio.run(worker.call(lambda: 6 * 7))
        42
        >>> worker.close()

    The thread is a daemon, so that the process can exit at once.
    """

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def call(self, function: Callable[[], T]) -> T:
        """Returns or raises what ``function`` does, after the calls before it."""
        future: Future[T] = Future()
        self._calls.put((future, function))
        return await wrap_future(future)

    def close(self) -> None:
        """Ends the thread after the calls so far."""
        self._calls.put(None)
        self._thread.join()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            future, function = call
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = function()
            except BaseException as error:  # raised in the caller
                future.set_exception(error)
            else:
                future.set_result(result)
            del call, future, function  # do not keep them alive until the next call


_ROUND = 4
"""Batches that are selected together, so that their texts can be sorted by length; later requests wait for them."""


BatchListener = Callable[[int, int, float], None]
"""Called with (texts, tokens without padding, seconds) after every batch, for metrics."""


class _Job:
    """The texts of one request, encoded shortest first, and their vectors so far."""

    def __init__(self, rows: Sequence[Ids], dimension: int, unpooled: int) -> None:
        self.rows = rows
        self.unpooled = unpooled
        self.order = np.argsort([len(row) for row in rows], kind="stable").tolist()
        self.vectors = np.zeros((len(rows), dimension), dtype=np.float32)
        self.selected = 0
        self.encoded = 0
        self.future: Future[Embeddings] = Future()

    @property
    def remaining(self) -> int:
        return len(self.order) - self.selected


class Batcher:
    """Encodes the texts of many requests together; vectors do not depend on what else is in the batch.

    No request waits for a batch to fill up: while one round of batches is encoded, requests gather for the next. Every
    waiting request has its share of a round, so that a short request does not wait for a long one before it.

    Attributes:
        encoder: from now on only this thread may use it.
        precision: arithmetic of the vectors.
    """

    def __init__(
        self,
        encoder: TextEncoder,
        listener: BatchListener,
        *,
        precision: PrecisionName = "float32",
        token_budget: int | None = None,
    ) -> None:
        self.encoder = encoder
        self.precision: PrecisionName = precision
        self._listener = listener
        self._budget = token_budget or usual_budget(encoder.device_kind)
        self._jobs: list[_Job] = []
        self._changed = threading.Condition()
        self._closed = False
        self._rate = 0.0
        self._thread = threading.Thread(target=self._run, name="opencse-encoder", daemon=True)
        self._thread.start()

    def submit(self, rows: Sequence[Ids], unpooled: int = 0) -> Future[Embeddings]:
        """Queues a request, and returns the future of its (n, dimension) vectors; cancel it to skip what is left.

        Args:
            rows: token ids of each text.
            unpooled: first tokens of each text that pooling leaves out.

        Raises:
            RuntimeError: after `close`.
        """
        job = _Job(rows, self.encoder.dimension, unpooled)
        if not rows:
            job.future.set_result(job.vectors)
            return job.future
        with self._changed:
            if self._closed:
                raise RuntimeError("the batcher is closed")
            self._jobs.append(job)
            self._changed.notify()
        return job.future

    @property
    def waiting(self) -> int:
        """Number of texts that are not in a batch yet."""
        with self._changed:
            return sum(job.remaining for job in self._jobs if not job.future.cancelled())

    @property
    def seconds_left(self) -> float:
        """Estimated time for the waiting texts, by the speed of the last batches; 0 before the first batch."""
        return self.waiting / self._rate if self._rate else 0.0

    @property
    def alive(self) -> bool:
        """Whether the encoding thread runs."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Encodes all queued requests, then ends the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while texts := self._next():
            lengths = [len(job.rows[row]) for job, row in texts]
            for batch in token_batches(lengths, self._budget):
                self._encode([texts[i] for i in batch.tolist()])

    def _next(self) -> list[tuple[_Job, int]]:
        """The (job, row) pairs of the next round; empty after `close`, when all is encoded."""
        with self._changed:
            while True:
                self._jobs = [job for job in self._jobs if job.remaining and not job.future.cancelled()]
                if self._jobs or self._closed:
                    return self._shared(self._budget * _ROUND)
                self._changed.wait()

    def _shared(self, window: int) -> list[tuple[_Job, int]]:
        """Selects rows of about ``window`` tokens, an equal share from each job, older jobs first."""
        texts: list[tuple[_Job, int]] = []
        tokens = 0
        while tokens < window and (open_ := [job for job in self._jobs if job.remaining]):
            share = max(1, (window - tokens) // len(open_))
            for job in open_:
                spent = 0
                while job.remaining and spent < share and tokens < window:
                    row = job.order[job.selected]
                    job.selected += 1
                    texts.append((job, row))
                    # One more than its tokens, so that empty texts use up a share, too.
                    spent += len(job.rows[row]) + 1
                    tokens += len(job.rows[row]) + 1
        return texts

    def _encode(self, batch: list[tuple[_Job, int]]) -> None:
        pending = [(job, row) for job, row in batch if not job.future.done()]  # done: cancelled, or failed before
        filled = [(job, row) for job, row in pending if len(job.rows[row])]
        try:
            started = time.perf_counter()
            if filled:
                rows = [job.rows[row] for job, row in filled]
                unpooled = [job.unpooled for job, _ in filled]
                vectors = self.encoder.encode_ids(rows, unpooled, precision=self.precision)
                require_sound_vectors(self.encoder, vectors)
                for (job, row), vector in zip(filled, vectors, strict=True):
                    job.vectors[row] = vector
                spent = time.perf_counter() - started
                self._listener(len(rows), sum(map(len, rows)), spent)
                rate = len(rows) / max(spent, 1e-9)
                # Smoothed over some ten batches: it is what Retry-After tells clients.
                self._rate = rate if not self._rate else 0.9 * self._rate + 0.1 * rate
        except Exception as error:  # out of memory, for example: reported to the requests; the thread continues
            for job, _ in pending:
                _fail(job, error)
            return
        for job, _ in pending:
            job.encoded += 1
            if job.encoded == len(job.rows) and job.future.set_running_or_notify_cancel():
                job.future.set_result(job.vectors)


def _fail(job: _Job, error: Exception) -> None:
    job.selected = len(job.order)
    if not job.future.done() and job.future.set_running_or_notify_cancel():
        job.future.set_exception(error)


_SLICE = 64
"""Texts that are tokenised at a time, so that a short request does not wait for a long one."""
_SPACE = re.compile(r"\s")
_SHORT = 2_000
"""Characters that are tokenised in well under a millisecond."""
_CHARACTERS, _FEWEST_CHARACTERS, _GROWTH = 64, 16_384, 4
"""A long text is tokenised from its beginning: this many characters per token that the model reads, at least this many,
and more by this factor while they give too few tokens. Tokenising 4 MB at once would need 600 MB of memory."""
_LONG = 2**20
"""Characters from which unused memory is returned to the system."""


def _beginning(text: str, room: int) -> str:
    """The first ``room`` characters or fewer, ending at a space if possible."""
    if len(text) <= room:
        return text
    # At a space, because half of a word has other tokens.
    spaces = list(_SPACE.finditer(text, room // 2, room))
    return text[: spaces[-1].start() if spaces else room]


def _frame(encoder: TextEncoder) -> tuple[list[int], list[int]]:
    """The special tokens before and after every text, which clients with a tokenizer of OpenAI's kind do not send."""
    empty, text = (row.tolist() for row in encoder.tokenizer.encode(["", "a"], None))
    first = _same_beginning(empty, text)
    return first, _same_beginning(empty[len(first) :][::-1], text[len(first) :][::-1])[::-1]


def _same_beginning(one: list[int], other: list[int]) -> list[int]:
    return [token for token, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))]


def _release() -> None:
    """Returns unused memory to the system, where the C library can (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


@dataclass(frozen=True)
class TokenizedTexts:
    """The texts of a request as token ids.

    Example:
        >>> TokenizedTexts([np.array([2, 7, 3], dtype=np.int32)], []).tokens
        3

    Attributes:
        rows: token ids of each text, as `SentenceEncoder.encode` makes them.
        truncated: numbers of the texts that are longer than the model reads, from 0.
        unpooled: first tokens of each text that pooling leaves out.
    """

    rows: list[Ids]
    truncated: list[int]
    unpooled: int = 0

    @property
    def tokens(self) -> int:
        """The number of tokens, including special tokens."""
        return sum(map(len, self.rows))


class ServedModel:
    """One model with a thread for its tokenizer and a thread for its encoder.

    Attributes:
        name: in requests.
        encoder: the model; only this object may use it.
        fingerprint: the fingerprint of the model's weights and settings.
    """

    def __init__(
        self,
        name: str,
        encoder: TextEncoder,
        limits: Limits,
        metrics: Metrics,
        *,
        precision: PrecisionName = "float32",
    ) -> None:
        self.name = name
        self.encoder = encoder
        self.fingerprint = fingerprint(encoder)
        first = "Makes the encoder build what it builds at the first text, before two threads use it."
        encoder.encode(first, precision=precision)
        self._limits = limits
        self._metrics = metrics
        self._ids = encoder.id_count
        self._frame = _frame(encoder)
        self._batcher = Batcher(encoder, partial(metrics.encoded, name), precision=precision)
        self._tokenizing = Worker("opencse-tokenizer")
        self._tokenizer = threading.Lock()
        metrics.waiting.labels(name).set_function(lambda: self._batcher.waiting)

    async def read(
        self, inputs: Sequence[str] | Sequence[Sequence[int]], *, prompt: str, truncate: bool
    ) -> TokenizedTexts:
        """Tokenises texts with ``prompt`` before each, or checks token ids.

        Args:
            inputs: texts, or token ids of each text.
            prompt: before each text.
            truncate: allow texts that are longer than the model reads.

        Raises:
            ApiError: if a text is too long, an id is not in the vocabulary, or too many texts wait.
        """
        self._admit()
        rows: list[Ids] = []
        long: list[int] = []
        for start in range(0, len(inputs), _SLICE):
            part = inputs[start : start + _SLICE]
            texts = [item for item in part if isinstance(item, str)]
            if texts:
                some, over = await self._tokens(texts, prompt)
            else:
                some, over = self._checked(part, start)
            if over and not truncate:
                raise self._too_long(start + over[0][0], over[0][1])
            rows += some
            long += [start + number for number, _ in over]
        are_texts = bool(inputs) and isinstance(inputs[0], str)
        return TokenizedTexts(rows, long, self.encoder.unpooled(prompt) if are_texts else 0)

    async def vectors(self, texts: TokenizedTexts) -> Embeddings:
        """Encodes texts: (n, dimension) float32, as `SentenceEncoder.encode` does in the precision of this model.

        Raises:
            ApiError: if too many texts wait.
        """
        self._admit()
        return await wrap_future(self._batcher.submit(texts.rows, texts.unpooled))

    @property
    def alive(self) -> bool:
        """Whether both threads run."""
        return self._batcher.alive and self._tokenizing.alive

    def close(self) -> None:
        """Answers waiting requests and ends the threads."""
        self._tokenizing.close()
        self._batcher.close()

    def _admit(self) -> None:
        waiting = self._batcher.waiting
        if waiting >= self._limits.waiting_texts:
            seconds = min(60, round(self._batcher.seconds_left))
            texts = number_of(waiting, "text is", "texts are")
            raise overloaded(f"{texts} waiting for {self.name}; try again in a while", seconds)

    async def _tokens(self, texts: list[str], prompt: str) -> tuple[list[Ids], list[tuple[int, int]]]:
        """Tokenises short texts directly if the tokenizer is free, because a change of threads takes longer."""
        if sum(map(len, texts)) <= _SHORT and self._tokenizer.acquire(blocking=False):
            try:
                return self._tokenized(texts, prompt)
            finally:
                self._tokenizer.release()
        return await self._tokenizing.call(partial(self._tokenized_alone, texts, prompt))

    def _tokenized_alone(self, texts: list[str], prompt: str) -> tuple[list[Ids], list[tuple[int, int]]]:
        with self._tokenizer:
            tokenized = self._tokenized(texts, prompt)
        if sum(map(len, texts)) > _LONG:
            _release()
        return tokenized

    def _tokenized(self, texts: list[str], prompt: str) -> tuple[list[Ids], list[tuple[int, int]]]:
        """Token ids of each text, and (number of the text, lower bound of its tokens) of the truncated ones."""
        encoder, most = self.encoder, self.encoder.max_length
        over: list[tuple[int, int]] = []
        room = max(_FEWEST_CHARACTERS, _CHARACTERS * most)
        begins = [_beginning(text, room) if encoder.tokenizer.reads_from_left else text for text in texts]
        rows = encoder.tokenize(begins, prompt)
        for number, text in enumerate(texts):
            larger = room
            while len(begins[number]) < len(text) and len(rows[number]) < most:  # hardly a token in it
                larger *= _GROWTH
                begins[number] = _beginning(text, larger)
                rows[number] = encoder.tokenize([begins[number]], prompt)[0]
        full = [i for i, row in enumerate(rows) if len(row) >= most]
        complete = encoder.tokenizer.encode([prompt + begins[i] for i in full], None)
        for i, row in zip(full, complete, strict=True):
            unread = bool(texts[i][len(begins[i]) :].strip())
            if len(row) > len(rows[i]) or unread:
                over.append((i, len(row) + unread))
        return rows, over

    def _checked(self, inputs: Sequence[object], start: int) -> tuple[list[Ids], list[tuple[int, int]]]:
        """Checks token ids, adds missing special tokens ([CLS], [SEP]), and truncates long rows; see `_tokenized`."""
        rows: list[Ids] = []
        over: list[tuple[int, int]] = []
        for number, ids in enumerate(inputs):
            assert isinstance(ids, list)
            wrong = next((token for token in ids if not 0 <= token < self._ids), None)
            if wrong is not None:
                raise ApiError(
                    400,
                    f"input {start + number} holds token id {str(wrong)[:30]}, and {self.name} has ids 0 to "
                    f"{self._ids - 1:,}; make ids with this model's own tokenizer, or send the text (LangChain: "
                    "check_embedding_ctx_length=False)",
                    param="input",
                    code="invalid_token_id",
                )
            first, last = self._frame
            inner = ids[len(first) if ids[: len(first)] == first else 0 :]
            inner = inner[: len(inner) - len(last)] if last and inner[-len(last) :] == last else inner
            most = self.encoder.max_length - len(first) - len(last)
            if len(inner) > most:
                over.append((number, len(first) + len(inner) + len(last)))
            rows.append(np.asarray([*first, *inner[:most], *last], dtype=np.int32))
        return rows, over

    def _too_long(self, number: int, length: int) -> ApiError:
        return ApiError(
            400,
            f"input {number} has at least {length:,} tokens, and {self.name} reads at most "
            f'{self.encoder.max_length:,}; shorten it, or send "truncate": true to have it truncated',
            param="input",
            code="context_length_exceeded",
        )
