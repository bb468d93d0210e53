"""Statistics of dimensions: constant ones, and the rank of a product."""

from __future__ import annotations

import pytest
import torch

from opencse.objective.decorrelation import rank_of_products, standardised


def test_squares_that_underflow_count_as_constant() -> None:
    tiny = torch.tensor([[1e-30, 1.0], [2e-30, -1.0], [4e-30, 0.5]])
    out = standardised(tiny, ddof=1, eps=0.0)
    assert not out[:, 0].any()
    assert out[:, 1].std().item() == pytest.approx(1.0)


def test_the_rank_counts_what_is_independent() -> None:
    random = torch.Generator().manual_seed(0)
    left, right = (torch.randn(9, 20, generator=random, dtype=torch.float64) for _ in range(2))
    assert rank_of_products(left, right).item() == 9
    low = left[:, :3] @ torch.randn(3, 20, generator=random, dtype=torch.float64)
    assert rank_of_products(low, right).item() == 3
    assert rank_of_products(left, low).item() == 3
    assert rank_of_products(left, 0 * right).item() == 0
    far = left.clone()
    far[8] *= 1e-8
    assert rank_of_products(far, right).item() == 9
    # Equal examples count once.
    assert rank_of_products(left[[0, 1, 1, 0]], right[[0, 1, 1, 0]]).item() == 2
