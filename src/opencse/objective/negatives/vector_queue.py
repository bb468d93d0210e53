"""The last vectors that were made, and the texts behind them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder


class VectorQueue(nn.Module):
    """First in, first out: the last ``size`` vectors pushed, each with its text's key; empty at first.

    A ring of buffers, so that a checkpoint holds it: the t-th vector ever pushed (from 0) lies in row ``t % size``.

    Args:
        size: vectors held at most, at least 1.
        dimension: length of a vector (d).
        device: where the vectors are kept.
        dtype: what they are kept in.
    """

    stored: Tensor
    stored_keys: Tensor
    pushed: Tensor

    def __init__(self, size: int, dimension: int, *, device: torch.device, dtype: torch.dtype) -> None:
        super().__init__()
        self.size = size
        self.register_buffer("stored", torch.zeros(size, dimension, device=device, dtype=dtype))
        self.register_buffer("stored_keys", torch.zeros(size, device=device, dtype=torch.int64))
        # On the CPU, where Python reads it every step: on a GPU each reading would wait for all work in flight.
        self.register_buffer("pushed", torch.zeros((), dtype=torch.int64, device="cpu"))

    def __len__(self) -> int:
        """Vectors held now."""
        return min(self.size, int(self.pushed))

    @property
    def vectors(self) -> Tensor:
        """(K, d), K = ``len(self)``, in no particular order."""
        return self.stored[: len(self)]

    @property
    def keys(self) -> Tensor:
        """(K,) keys of the texts behind ``vectors``."""
        return self.stored_keys[: len(self)]

    @torch.no_grad()
    def push(self, vectors: Tensor, keys: Tensor) -> None:
        """Takes in ``vectors`` (N, d) and their ``keys`` (N,), the last row being the newest; the oldest fall out."""
        kept = min(len(vectors), self.size)  # on a GPU it is undefined which of two writes to a row is the last
        end = int(self.pushed) + len(vectors)
        rows = torch.arange(end - kept, end, device=self.stored.device) % self.size
        self.stored[rows] = vectors[len(vectors) - kept :].to(self.stored)
        self.stored_keys[rows] = keys[len(keys) - kept :].to(self.stored_keys)
        self.pushed.fill_(end)


def empty_store(encoder: SentenceEncoder, sentences: int) -> VectorQueue:
    """An empty queue for the last ``sentences`` vectors that the encoder makes in training."""
    return VectorQueue(sentences, encoder.training_dimension, device=encoder.device, dtype=encoder.backbone.dtype)
