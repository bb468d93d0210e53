"""Columns of the denominator: duplicates, and rows without any negative."""

from __future__ import annotations

import pytest
import torch

from contrast_cases import Case, D, N, per_anchor, representations
from opencse.objective.columns import LogitColumns
from opencse.objective.losses import (
    info_nce_from_logits,
)
from opencse.objective.vectors.step import Representations


def test_the_example_with_duplicates_has_every_kind_of_them() -> None:
    case = Case(hard=2, duplicates=True)
    pairs, hard = (
        source.columns(representations(case), case.objective().scoring).dense() for source in case.objective().negatives
    )
    assert pairs.duplicates is not None
    assert hard.duplicates is not None
    assert pairs.duplicates.nonzero().tolist() == [[0, 3], [1, 2], [2, 1], [3, 0]]
    assert hard.duplicates.nonzero().tolist() == [[0, 4], [1, N + 1], [2, N + 1], [3, 4]]


def test_label_smoothing_of_one_column_is_nothing() -> None:
    nothing = LogitColumns(torch.zeros(2, 1), excluded=torch.ones(2, 1, dtype=torch.bool))
    assert info_nce_from_logits(torch.tensor([3.0, -2.0]), nothing.weighted(), label_smoothing=0.5).tolist() == [
        0.0,
        0.0,
    ]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_rows_whose_negatives_are_all_masked(smoothing: float) -> None:
    case = Case(smoothing=smoothing)
    # Example 0 shares a text with 1 and with 2; these two share none with each other.
    keys = torch.tensor([[1, 2], [1, 3], [2, 4]])
    anchor, positive = (t[:3].requires_grad_() for t in (representations(case).anchor, representations(case).positive))
    losses = per_anchor(case, Representations(anchor, positive, torch.zeros(3, 0, D), keys))
    assert losses[0].item() == pytest.approx(0.0, abs=1e-15)
    assert (losses[1:] > 1e-3).all()
    for gradient in torch.autograd.grad(losses.sum(), (anchor, positive)):
        assert torch.isfinite(gradient).all()
        assert gradient.abs().max() > 1e-3
    alone = Representations(anchor, positive, torch.zeros(3, 0, D), torch.ones(3, 2, dtype=torch.int64))
    total = case.objective()(alone).total
    assert total.item() == pytest.approx(0.0, abs=1e-15)
    for gradient in torch.autograd.grad(total, (anchor, positive)):
        assert gradient.abs().max() < 1e-12  # and so not NaN
