"""The encoding thread: vectors of each request, shares, cancelled requests, failures, closing."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from opencse.encoder.encoder import SentenceEncoder
from opencse.serving.served_model import Batcher
from opencse.text.tokenizer import Tokens


class Seen:
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, int]] = []

    def __call__(self, texts: int, tokens: int, seconds: float) -> None:
        self.batches.append((texts, tokens))


class Slow:
    """An encoder that waits for leave before each batch, and tells what it is given."""

    def __init__(self, encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
        self.leave = threading.Semaphore(0)
        self.lengths: list[NDArray[np.int64]] = []
        embed = encoder.embed

        def slow(tokens: Tokens, *, bf16: bool) -> torch.Tensor:
            assert self.leave.acquire(timeout=20)
            self.lengths.append(tokens.attention_mask.sum(1).numpy())
            return embed(tokens, bf16=bf16)

        monkeypatch.setattr(encoder, "embed", slow)


def test_batches_keep_to_the_budget_and_mix_requests(model: SentenceEncoder, offline: SentenceEncoder) -> None:
    seen = Seen()
    batcher = Batcher(model, seen, token_budget=64)
    texts = [[f"snow {'and ice ' * (i % 5)}{j}" for j in range(i)] for i in range(12)]
    futures = [batcher.submit(model.tokenize(some)) for some in texts]
    for some, future in zip(texts, futures, strict=True):
        made = future.result(20)
        assert made.shape == (len(some), 32)
        assert np.abs(made - offline.encode(some)).max(initial=0) < 1e-5
    batcher.close()
    assert sum(count for count, _ in seen.batches) == sum(map(len, texts))
    assert all(tokens <= 64 for _, tokens in seen.batches)


def test_a_short_request_does_not_wait_for_a_long_one(model: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(model, monkeypatch)
    batcher = Batcher(model, Seen(), token_budget=64)
    long = batcher.submit(model.tokenize([f"snow and ice {i}" for i in range(500)]))
    slow.leave.release()  # the long one has begun
    short = batcher.submit(model.tokenize(["tea"]))
    for _ in range(12):
        slow.leave.release()
    short.result(20)
    assert not long.done()
    assert batcher.waiting > 300
    for _ in range(500):
        slow.leave.release()
    assert np.isfinite(long.result(20)).all()
    batcher.close()


def test_a_failure_is_reported_and_the_thread_continues(
    model: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed, fail = model.embed, threading.Event()
    fail.set()

    def failing(tokens: Tokens, *, bf16: bool) -> torch.Tensor:
        if fail.is_set():
            raise RuntimeError("out of memory")
        return embed(tokens, bf16=bf16)

    monkeypatch.setattr(model, "embed", failing)
    batcher = Batcher(model, Seen(), token_budget=64)
    lost = batcher.submit(model.tokenize([f"snow {i}" for i in range(100)]))
    with pytest.raises(RuntimeError, match="out of memory"):
        lost.result(20)
    fail.clear()
    assert batcher.submit(model.tokenize(["snow"])).result(20).shape == (1, 32)
    assert batcher.alive
    assert batcher.waiting == 0
    batcher.close()
