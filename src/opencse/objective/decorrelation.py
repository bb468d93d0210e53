"""Statistics of the dimensions of two views, for the losses that decorrelate them: functions of (N, D) matrices."""

from __future__ import annotations

import torch
from torch import Tensor

_ROUNDING = torch.finfo(torch.float64).eps


def centred(vectors: Tensor) -> Tensor:
    """(N, D) -> (N, D): subtracts the mean of each dimension; exactly 0 where a dimension is constant."""
    shifted = vectors - vectors[:1].detach()  # the mean of equal numbers can be a rounding error off them
    return shifted - shifted.mean(dim=0)


def standardised(vectors: Tensor, *, ddof: int, eps: float) -> Tensor:
    """(N, D) -> (N, D): scales each dimension to mean 0 and variance 1.

    With ``eps`` 0, a dimension of variance 0 has no such form: it becomes 0, and gets no gradient.

    Args:
        vectors: N >= 1 + ``ddof``.
        ddof: 1 divides the squares by N - 1 (unbiased), 0 by N.
        eps: added to the variance.
    """
    deviation = centred(vectors)
    return _divided(deviation, deviation.square().sum(dim=0) / (len(vectors) - ddof) + eps)


def unit_columns(vectors: Tensor) -> Tensor:
    """(N, D) -> (N, D): scales each dimension to length 1; one of zeros stays 0, and gets no gradient."""
    return _divided(vectors, vectors.square().sum(dim=0))


def _divided(vectors: Tensor, squares: Tensor) -> Tensor:
    """``vectors`` / sqrt(``squares``), 0 where these are 0 (the root of 0 has no finite gradient)."""
    zero = squares == 0
    return (vectors / squares.masked_fill(zero, 1.0).sqrt()).masked_fill(zero, 0.0)


def cross_products(first: Tensor, second: Tensor) -> Tensor:
    """(N, D), (N, D) -> (D, D): the dot products of all pairs of dimensions, autocast or not."""
    with torch.autocast(first.device.type, enabled=False):
        return first.T @ second


def rank_of_products(first: Tensor, second: Tensor) -> Tensor:
    """(N, D), (N, D) -> scalar: the rank of ``first.T @ second``, at most min(N, D).

    It counts the singular values above the largest one times ``max(N, D)`` times the rounding unit of float64. They
    equal the singular values of the small product R_1 R_2^T of the QR decompositions of both factors' transposes, so
    no (D, D) matrix is decomposed if N is less than D. Computed on the CPU, in float64.
    """
    triangles = [torch.linalg.qr(side.detach().to("cpu", torch.float64).T, mode="r").R for side in (first, second)]
    rank: Tensor = torch.linalg.matrix_rank(triangles[0] @ triangles[1].T, rtol=max(first.shape) * _ROUNDING)
    return rank
