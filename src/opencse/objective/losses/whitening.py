"""Whitening of groups of dimensions, with gradient (WhitenedCSE)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from opencse.objective.losses.similarity import at_least_float32


def group_whitening(
    vectors: Tensor, order: Tensor, *, size: int, epsilon: float = 1e-5, detached: bool = False
) -> Tensor:
    """Whitens groups of dimensions of a batch, each group by itself.

    Zhuo et al. 2023, arXiv:2305.17746, section 3. The dimensions are put in ``order`` and divided into groups of
    ``size``. With X_g the (N, size) columns of a group, less their means::

        C_g = X_g^T X_g / N + epsilon I
        Y_g = X_g C_g^(-1/2)

    and the dimensions are put back in their places. The last group is smaller if ``size`` does not divide d. Another
    random order gives another distortion of the same vectors.

    Args:
        vectors: (N, d).
        order: (d,) the dimensions, in the order in which they are grouped.
        size: dimensions of a group.
        epsilon: added to each variance, so that fewer rows than dimensions are no obstacle.
        detached: whether the matrices ``C_g^(-1/2)`` take no gradient.

    Returns:
        (N, d), float32 at least: in each group the mean is 0 and the covariance nearly the identity.

    Example:
        >>> vectors = torch.tensor([[2.0, 0.0, 5.0], [-2.0, 0.0, 7.0], [0.0, 1.0, 6.0], [0.0, -1.0, 6.0]])
        >>> white = group_whitening(vectors, torch.tensor([0, 1, 2]), size=2)
        >>> (white.T @ white / 4).round(decimals=2).tolist()  # dimensions 0 and 1 are a group, 2 is one by itself
        [[1.0, 0.0, -1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 1.0]]
    """
    shuffled = at_least_float32(vectors)[:, order]
    centred = shuffled - shuffled.mean(dim=0)
    whitened = [_whitened(group, epsilon, detached) for group in _groups(centred, size)]
    return torch.cat(whitened, dim=1)[:, order.argsort()]


def _groups(vectors: Tensor, size: int) -> list[Tensor]:
    """(G, N, size) of the full groups, and (1, N, rest) of the last one if it is smaller."""
    n, d = vectors.shape
    full = d // size
    parts = [vectors[:, : full * size].reshape(n, full, size).transpose(0, 1)] if full else []
    return parts + ([vectors[None, :, full * size :]] if d % size else [])


def _whitened(groups: Tensor, epsilon: float, detached: bool) -> Tensor:
    """(G, N, s) -> (N, G * s)."""
    source = groups.detach() if detached else groups
    identity = torch.eye(groups.shape[2], dtype=groups.dtype, device=groups.device)
    covariance = source.transpose(1, 2) @ source / groups.shape[1] + epsilon * identity
    matrices: Tensor = _InverseRoot.apply(covariance)  # type: ignore[no-untyped-call]
    return (groups @ matrices).transpose(0, 1).flatten(1)


class _InverseRoot(torch.autograd.Function):
    """``C^(-1/2)`` of symmetric positive matrices (G, s, s).

    Its gradient has no quotients of differences of eigenvalues, so equal eigenvalues do no harm: with C = U diag(l) U^T
    and r = sqrt(l), an entry of the change of C in the basis U is divided by ``-r_i r_j (r_i + r_j)``.
    """

    @staticmethod
    def forward(ctx: Any, matrices: Tensor) -> Tensor:  # noqa: ANN401 - as torch has it
        """(G, s, s) -> (G, s, s)."""
        values, basis = torch.linalg.eigh(matrices)
        roots = values.clamp(min=torch.finfo(values.dtype).tiny).sqrt()
        ctx.save_for_backward(roots, basis)
        result: Tensor = (basis / roots.unsqueeze(1)) @ basis.transpose(1, 2)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # noqa: ANN401 - as torch has it
        """The gradient of the matrices."""
        roots, basis = ctx.saved_tensors
        inside = basis.transpose(1, 2) @ gradient @ basis
        a, b = roots.unsqueeze(2), roots.unsqueeze(1)
        result: Tensor = basis @ (-inside / (a * b * (a + b))) @ basis.transpose(1, 2)
        return (result + result.transpose(1, 2)) / 2
