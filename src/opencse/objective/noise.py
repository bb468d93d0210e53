"""What parts that draw noise share."""

from __future__ import annotations

import torch
from torch import Tensor


def standard_normal(shape: tuple[int, ...], like: Tensor, noise: torch.Generator) -> Tensor:
    """N(0, 1) of ``shape``, on ``like``'s device, of its type."""
    return torch.randn(shape, generator=noise, device=like.device, dtype=like.dtype)


def centre_and_spread(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation (N - 1 below the sum) of each dimension: (N, d) -> (d,), (d,); sd 0 if N is 1."""
    mean = vectors.mean(dim=0)
    return mean, ((vectors - mean).square().sum(dim=0) / max(1, len(vectors) - 1)).sqrt()
