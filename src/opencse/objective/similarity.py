"""Similarities of vectors in float32 at least, autocast or not, and draws of Gaussian noise."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

SimilarityKind = Literal["cosine", "dot"]


def pairwise_similarity(a: Tensor, b: Tensor, kind: SimilarityKind) -> Tensor:
    """(N, d), (M, d) -> (N, M): the cosine or dot product of every a with every b; a ``ValueError`` for another kind.

    Example:
        >>> pairwise_similarity(torch.tensor([[2.0, 0.0]]), torch.tensor([[3.0, 0.0], [0.0, 1.0]]), "cosine")
        tensor([[1., 0.]])
    """
    a, b = compared(a, kind), compared(b, kind)
    with torch.autocast(a.device.type, enabled=False):
        return a @ b.T


def rowwise_similarity(a: Tensor, b: Tensor, kind: SimilarityKind) -> Tensor:
    """(N, d), (N, d) -> (N,): the cosine or dot product of each a with the b of its row; else a ``ValueError``.

    Example:
        >>> rowwise_similarity(torch.tensor([[2.0, 0.0]]), torch.tensor([[3.0, 0.0]]), "dot")
        tensor([6.])
    """
    a, b = compared(a, kind), compared(b, kind)
    return (a * b).sum(dim=-1)


def compared(vectors: Tensor, kind: SimilarityKind) -> Tensor:
    """The vectors in the form whose products are the similarity."""
    if kind == "cosine":
        return functional.normalize(at_least_float32(vectors), dim=-1)
    if kind == "dot":
        return at_least_float32(vectors)
    raise ValueError(f"unknown similarity {kind!r}; known: cosine, dot")


def at_least_float32(values: Tensor) -> Tensor:
    """Half precision as float32; float32 and float64 as they are.

    Example:
        >>> at_least_float32(torch.zeros(1, dtype=torch.bfloat16)).dtype
        torch.float32
    """
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values


def standard_normal(shape: tuple[int, ...], like: Tensor, noise: torch.Generator) -> Tensor:
    """Draws N(0, 1) of ``shape``, on the device of ``like`` and of its type."""
    return torch.randn(shape, generator=noise, device=like.device, dtype=like.dtype)


def centre_and_spread(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """(N, d) -> (d,), (d,): mean and standard deviation (divided by N - 1) of each dimension; sd 0 if N is 1."""
    mean = vectors.mean(dim=0)
    return mean, ((vectors - mean).square().sum(dim=0) / max(1, len(vectors) - 1)).sqrt()
