"""Draws of Gaussian noise, and the mean and spread of a batch that noise is scaled by."""

from __future__ import annotations

import torch
from torch import Tensor


def standard_normal(shape: tuple[int, ...], like: Tensor, noise: torch.Generator) -> Tensor:
    """Draws N(0, 1) of ``shape``, on the device of ``like`` and of its type."""
    return torch.randn(shape, generator=noise, device=like.device, dtype=like.dtype)


def centre_and_spread(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """(N, d) -> (d,), (d,): mean and standard deviation (divided by N - 1) of each dimension; sd 0 if N is 1."""
    mean = vectors.mean(dim=0)
    return mean, ((vectors - mean).square().sum(dim=0) / max(1, len(vectors) - 1)).sqrt()
