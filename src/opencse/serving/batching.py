"""Dynamic batching: one thread encodes the texts of many requests together, in batches of similar numbers of tokens."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

import numpy as np

from opencse.arrays import Embeddings
from opencse.encoder.text_encoder import TextEncoder, require_sound_vectors, token_batches, usual_budget
from opencse.kernels.precision import PrecisionName
from opencse.text.rust_tokenizer import Ids

_ROUND = 4
"""Batches that are selected together, so that their texts can be sorted by length; later requests wait for them."""


class BatchListener(Protocol):
    """Is notified of every batch, for metrics."""

    def batch(self, texts: int, tokens: int, seconds: float) -> None:
        """Counts an encoded batch; padding is not part of ``tokens``."""


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
                self._listener.batch(len(rows), sum(map(len, rows)), spent)
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
