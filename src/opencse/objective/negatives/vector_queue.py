"""A queue of the last vectors of earlier steps, with the keys of their texts."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder


class VectorQueue(nn.Module):
    """Holds the last ``size`` vectors that were pushed, each with the key of its text; empty at first.

    A ring of buffers, so that a checkpoint contains it: the t-th vector (from 0) is in row ``t % size``.

    Example:
        >>> queue = VectorQueue(3, 2, device=torch.device("cpu"), dtype=torch.float32)
        >>> queue.push(torch.ones(2, 2), torch.tensor([1, 2]))
        >>> queue.push(torch.ones(2, 2), torch.tensor([3, 4]))
        >>> queue.keys.tolist()  # the fourth took the place of the first
        [4, 2, 3]

    Args:
        size: the most vectors it holds, at least 1.
        dimension: length of a vector (d).
        device: where the vectors are stored.
        dtype: their type.
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
        """The number of vectors it holds."""
        return min(self.size, int(self.pushed))

    @property
    def vectors(self) -> Tensor:
        """(K, d), K = ``len(self)``, in no particular order."""
        return self.stored[: len(self)]

    @property
    def keys(self) -> Tensor:
        """(K,) keys of the texts of ``vectors``."""
        return self.stored_keys[: len(self)]

    @torch.no_grad()
    def push(self, vectors: Tensor, keys: Tensor) -> None:
        """Adds ``vectors`` (N, d) and their ``keys`` (N,), the last row as the newest; drops the oldest."""
        count = min(len(vectors), self.size)  # on a GPU it is undefined which of two writes to a row is the last
        end = int(self.pushed) + len(vectors)
        rows = torch.arange(end - count, end, device=self.stored.device) % self.size
        self.stored[rows] = vectors[len(vectors) - count :].to(self.stored)
        self.stored_keys[rows] = keys[len(keys) - count :].to(self.stored_keys)
        self.pushed.fill_(end)


def empty_store(encoder: SentenceEncoder, sentences: int) -> VectorQueue:
    """Makes an empty queue for the last ``sentences`` vectors of the encoder in training."""
    return VectorQueue(sentences, encoder.training_dimension, device=encoder.device, dtype=encoder.backbone.dtype)
