"""Encodes many texts in batches of similar length and returns the vectors in the order of the texts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from opencse.encoder.batches import WINDOW, Batching, token_batches
from opencse.modules.modes import evaluating
from opencse.progress import Count

if TYPE_CHECKING:
    from opencse.encoder.network import EncoderNetwork

S = TypeVar("S")
T = TypeVar("T")


def encode_in_batches(
    encoder: EncoderNetwork, texts: Sequence[str], how: Batching, progress: Count | None = None
) -> NDArray[np.float32]:
    """(n, dimension) vectors of ``texts``; see `SentenceEncoder.encode`.

    A GPU gets one batch after the other and is waited for once per window, while the next window is tokenised.

    Args:
        encoder: of the vectors.
        texts: in the order of the vectors.
        how: the texts are encoded.
        progress: called after every batch with (texts done, texts in all).
    """
    static = encoder.static if encoder.device.type == "cpu" else None
    if static is not None:
        return static.vectors(texts, how, progress)
    vectors = np.zeros((len(texts), encoder.dimension), dtype=np.float32)
    starts = range(0, len(texts), WINDOW)
    windows = (texts[start : start + WINDOW] for start in starts)
    tokenise = partial(encoder.tokenize, prompt=how.prompt)
    tokenised = prefetched(tokenise, windows, in_thread=encoder.device.type != "cpu")
    done, unpooled = 0, encoder.unpooled(how.prompt)
    with evaluating(encoder):
        for start, ids in zip(starts, tokenised, strict=True):
            encoded = torch.empty(len(ids), encoder.dimension, device=encoder.device)
            rows = np.empty(len(ids), dtype=np.int64)
            at = 0
            for indices in token_batches([len(row) for row in ids], how.budget, how.most):
                filled = indices[[len(ids[i]) > 0 for i in indices]]
                if len(filled):
                    tokens = encoder.tokenizer.pad([ids[i] for i in filled]).leaving_out(unpooled)
                    tokens = tokens.to(encoder.device)
                    encoded[at : at + len(filled)] = encoder.embed(tokens, bf16=how.bf16)
                    rows[at : at + len(filled)] = start + filled
                    at += len(filled)
                done += len(indices)
                if progress is not None:
                    progress(done, len(texts))
            vectors[rows[:at]] = encoded[:at].cpu().numpy()
    return vectors


def prefetched(make: Callable[[S], T], items: Iterable[S], *, in_thread: bool) -> Iterator[T]:
    """``make`` of each item, in order; ``in_thread`` makes the next one in a thread while the last is used.

    >>> list(prefetched(str.upper, ["a", "b"], in_thread=True))
    ['A', 'B']
    """
    if not in_thread:
        yield from map(make, items)
        return
    pending: deque[Future[T]] = deque()
    with ThreadPoolExecutor(1) as worker:
        for item in items:
            pending.append(worker.submit(make, item))
            if len(pending) > 1:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
