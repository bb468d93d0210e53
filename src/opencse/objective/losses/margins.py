"""Losses that keep a difference of similarities between two margins."""

from __future__ import annotations

from torch import Tensor

from opencse.objective.losses.similarity import at_least_float32, rowwise_similarity


def bidirectional_margin(
    anchor: Tensor, positive: Tensor, negative: Tensor, *, alpha: float = 0.1, beta: float = 0.3
) -> Tensor:
    """SNCSE's loss of soft negatives (Wang and Dou 2022, arXiv:2201.05979, section 3.3).

    ``d_i = cos(a_i, n_i) - cos(a_i, p_i)``, and the loss is the mean of ``max(d_i + alpha, 0) + max(-d_i - beta, 0)``.
    It is 0 while the negation is less similar than the positive by ``alpha`` to ``beta``. The authors' code computes
    the same.

    Args:
        anchor: (N, d).
        positive: (N, d).
        negative: (N, d) the soft negative of each anchor.
        alpha: smallest difference that costs nothing.
        beta: largest difference that costs nothing.

    Returns:
        Scalar.

    Example:
        >>> import torch
        >>> a, same, other = torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 1.0]])
        >>> bidirectional_margin(a, same, other), bidirectional_margin(a, same, same)  # too far away, and too near
        (tensor(0.7000), tensor(0.1000))
    """
    a, p, n = (at_least_float32(vectors) for vectors in (anchor, positive, negative))
    difference = rowwise_similarity(a, n, "cosine") - rowwise_similarity(a, p, "cosine")
    return ((difference + alpha).relu() + (-difference - beta).relu()).mean()
