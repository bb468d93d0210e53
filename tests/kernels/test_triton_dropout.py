"""The masks of dropout inside Triton's kernels: their share, and that cells, places and seeds are independent."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from devices import DEVICE, use_triton

use_triton()

from opencse.kernels.triton_dropout import SeededDropout  # noqa: E402
from opencse.kernels.triton_rows import added_norm  # noqa: E402

ROWS, WIDTH = 64, 256


def kept(rate: float, seeds: list[int], place: int = 0) -> Tensor:
    """(ROWS, WIDTH), true where dropout keeps: of a row of zeros and constants LayerNorm raises the constants."""
    zeros, ones = torch.zeros(WIDTH, device=DEVICE), torch.ones(WIDTH, device=DEVICE)
    change = torch.ones(ROWS, WIDTH, device=DEVICE)
    draws = SeededDropout(rate, torch.tensor(seeds, device=DEVICE), place)
    return added_norm(torch.zeros_like(change), change, zeros, ones, zeros, 1e-12, draws)[0] > 0


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_the_share_is_the_rate_in_all_rows_and_columns(rate: float) -> None:
    mask = kept(rate, [123456789012345678]).double()
    spread = (rate * (1 - rate)) ** 0.5
    assert abs(float(mask.mean()) - (1 - rate)) < 4 * spread / (ROWS * WIDTH) ** 0.5
    assert float((mask.mean(dim=1) - (1 - rate)).abs().max()) < 4.5 * spread / WIDTH**0.5
    assert float((mask.mean(dim=0) - (1 - rate)).abs().max()) < 4.5 * spread / ROWS**0.5


def correlation(a: Tensor, b: Tensor) -> float:
    """Of two masks, in standard errors."""
    a, b = (one.double().flatten() for one in (a, b))
    return math.sqrt(len(a)) * torch.corrcoef(torch.stack([a, b]))[0, 1].item()


def test_masks_of_other_seeds_places_and_cells_are_independent() -> None:
    seeds = [2**61 + 5, 2**61 + 6, 5, 2**33 + 5]
    masks = [kept(0.3, seeds, place) for place in range(len(seeds))]
    assert torch.equal(masks[1], kept(0.3, [seeds[1]]))
    for number, one in enumerate(masks):
        for other in masks[:number]:
            assert abs(correlation(one, other)) < 4
        for shift in (1, 2, 32, WIDTH):
            flat = one.flatten()
            assert abs(correlation(flat[shift:], flat[:-shift])) < 4
