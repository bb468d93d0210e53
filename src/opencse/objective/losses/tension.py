"""Contrastive tension: a binary decision for each pair of vectors."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from opencse.objective.losses.similarity import at_least_float32


def contrastive_tension(first: Tensor, second: Tensor, labels: Tensor) -> Tensor:
    """Contrastive tension: whether two vectors are of one sentence (Carlsson et al. 2021, eq. 2).

    With f the vectors of one encoder, g those of the other, and y = 1 for two vectors of one sentence, else 0::

        loss = mean over pairs of -( y log s(f . g) + (1 - y) log(1 - s(f . g)) ),     s(x) = 1 / (1 + exp(-x))

    The dot product has no scale and is not normalised.

    Args:
        first: (P, d).
        second: (P, d).
        labels: (P,) 1 or 0.

    Returns:
        Scalar, of float32 at least.

    Example:
        >>> vectors = torch.tensor([[2.0, 0.0], [0.0, 2.0]])
        >>> contrastive_tension(vectors, vectors, torch.tensor([1, 0]))  # (0.0181 + 4.0181) / 2
        tensor(2.0181)
    """
    with torch.autocast(first.device.type, enabled=False):
        logits = (at_least_float32(first) * at_least_float32(second)).sum(dim=1)
        return functional.binary_cross_entropy_with_logits(logits, labels.to(logits))
