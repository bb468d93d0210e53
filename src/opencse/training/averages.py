"""Averages of trained weights with those of the start, which preserve more of what the start knew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor


def average(start: Mapping[str, Tensor], trained: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """``(1 - share) * start + share * trained``, weight by weight.

    Tensors of integers, and those that ``start`` does not have, are taken as trained.

    Example:
        >>> average({"w": torch.tensor([0.0])}, {"w": torch.tensor([1.0])}, share=0.75)
        {'w': tensor([0.7500])}
    """
    return {
        name: torch.lerp(start[name], tensor, share) if tensor.is_floating_point() and name in start else tensor
        for name, tensor in trained.items()
    }


def points_between(
    start: Mapping[str, Tensor], averaged: Mapping[str, Tensor], share: float, shares: Sequence[float]
) -> Iterator[tuple[float, dict[str, Tensor]]]:
    """Other averages of the trained weights with the start's, made from one of them.

    Args:
        start: the start's weights.
        averaged: the average with ``share`` of the trained weights; the trained weights themselves where it is 1.
        share: above 0.
        shares: of the trained weights in the averages to make; ``share`` itself is left out.

    Returns:
        Each share with its average.

    Example:
        >>> start, half = {"w": torch.tensor([0.0])}, {"w": torch.tensor([1.0])}
        >>> [*points_between(start, half, 0.5, [0.75, 0.5, 0.25])]
        [(0.75, {'w': tensor([1.5000])}), (0.25, {'w': tensor([0.5000])})]
    """
    return ((one, average(start, averaged, one / share)) for one in shares if one != share)
