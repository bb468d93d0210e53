"""Dynamic batching: one thread encodes what many requests ask for, in batches of about one number of tokens."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

import numpy as np
import torch

from opencse.encoder.batches import token_batches
from opencse.encoder.batches import token_budget as budget_of
from opencse.encoder.damage import require_whole
from opencse.encoder.encoder import SentenceEncoder, Vectors
from opencse.text.tokenizer import Ids

_ROUND = 4
"""Batches that are chosen together, so that their texts can be sorted by length; what comes later waits for them."""


class Watch(Protocol):
    """Hears of every batch."""

    def batch(self, texts: int, tokens: int, seconds: float) -> None:
        """A batch of so many texts and tokens (padding not counted) was encoded."""


class _Job:
    """The texts of one request, shortest first, and their vectors as they come."""

    def __init__(self, rows: Sequence[Ids], dimension: int, unpooled: int) -> None:
        self.rows = rows
        self.unpooled = unpooled
        self.order = np.argsort([len(row) for row in rows], kind="stable").tolist()
        self.vectors = np.zeros((len(rows), dimension), dtype=np.float32)
        self.taken = 0
        self.made = 0
        self.future: Future[Vectors] = Future()

    @property
    def left(self) -> int:
        return len(self.order) - self.taken


class Batcher:
    """Encodes the texts of many requests together; each gets its own vectors, whatever it shared a batch with.

    Nothing waits for a batch to fill up: while one round of batches is encoded, requests gather for the next. In a
    round every waiting request has its share, so that a short one is not held up by a long one before it.

    Attributes:
        encoder: in evaluation mode, used by this thread alone from now on.
    """

    def __init__(self, encoder: SentenceEncoder, watch: Watch, *, token_budget: int | None = None) -> None:
        self.encoder = encoder.eval()
        self._watch = watch
        self._budget = token_budget or budget_of(encoder.device)
        self._jobs: list[_Job] = []
        self._changed = threading.Condition()
        self._closed = False
        self._rate = 0.0
        self._thread = threading.Thread(target=self._run, name="opencse-encoder", daemon=True)
        self._thread.start()

    def submit(self, rows: Sequence[Ids], unpooled: int = 0) -> Future[Vectors]:
        """(n, dimension) vectors to come, of ``rows`` of token ids; cancelled, what is not encoded yet is left out.

        Pooling leaves out the first ``unpooled`` tokens of each row.

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
        """Texts that no batch has taken yet."""
        with self._changed:
            return sum(job.left for job in self._jobs if not job.future.cancelled())

    @property
    def seconds_left(self) -> float:
        """How long the texts that wait will take, by the last batches' speed; 0 while none is known."""
        return self.waiting / self._rate if self._rate else 0.0

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Encodes all that was submitted, then ends the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        with torch.inference_mode():
            while chosen := self._next():
                lengths = [len(job.rows[row]) for job, row in chosen]
                for batch in token_batches(lengths, self._budget):
                    self._encode([chosen[i] for i in batch.tolist()])

    def _next(self) -> list[tuple[_Job, int]]:
        """The next round's (job, row); empty once closed and done."""
        with self._changed:
            while True:
                self._jobs = [job for job in self._jobs if job.left and not job.future.cancelled()]
                if self._jobs or self._closed:
                    return self._shared(self._budget * _ROUND)
                self._changed.wait()

    def _shared(self, window: int) -> list[tuple[_Job, int]]:
        """Rows of about ``window`` tokens, of every job its share, the older jobs first."""
        chosen: list[tuple[_Job, int]] = []
        tokens = 0
        while tokens < window and (open_ := [job for job in self._jobs if job.left]):
            share = max(1, (window - tokens) // len(open_))
            for job in open_:
                spent = 0
                while job.left and spent < share and tokens < window:
                    row = job.order[job.taken]
                    job.taken += 1
                    chosen.append((job, row))
                    spent += len(job.rows[row]) + 1
                    tokens += len(job.rows[row]) + 1
        return chosen

    def _encode(self, batch: list[tuple[_Job, int]]) -> None:
        wanted = [(job, row) for job, row in batch if not job.future.done()]  # cancelled, or failed in another batch
        filled = [(job, row) for job, row in wanted if len(job.rows[row])]
        try:
            started = time.perf_counter()
            if filled:
                rows = [job.rows[row] for job, row in filled]
                tokens = self.encoder.tokenizer.pad(rows).leaving_out([job.unpooled for job, _ in filled])
                tokens = tokens.to(self.encoder.device)
                vectors = self.encoder.embed(tokens).float().cpu().numpy()
                require_whole(self.encoder, vectors)
                for (job, row), vector in zip(filled, vectors, strict=True):
                    job.vectors[row] = vector
                spent = time.perf_counter() - started
                self._watch.batch(len(rows), sum(map(len, rows)), spent)
                rate = len(rows) / max(spent, 1e-9)
                self._rate = rate if not self._rate else 0.9 * self._rate + 0.1 * rate
        except Exception as error:  # out of memory, for one: who asked hears of it, and the thread lives on
            for job, _ in wanted:
                _fail(job, error)
            return
        for job, _ in wanted:
            job.made += 1
            if job.made == len(job.rows) and job.future.set_running_or_notify_cancel():
                job.future.set_result(job.vectors)


def _fail(job: _Job, error: Exception) -> None:
    job.taken = len(job.order)
    if not job.future.done() and job.future.set_running_or_notify_cancel():
        job.future.set_exception(error)
