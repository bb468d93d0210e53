"""Columns of the denominator: duplicates, and rows without any negative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from opencse.objective.columns import LogitColumns
from opencse.objective.losses import (
    info_nce_from_logits,
    rowwise_similarity,
)
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.step import Representations
from opencse.settings import validate

N, D = 5, 4

# Texts as numbers: anchor, positive, first and second hard negative of each example. Equal: anchors 0 and 3; positive 1
# and anchor 2; hard negative of 4 and anchor 0 (so also anchor 3); hard negative of 1 and its own positive.
DUPLICATES = [[1, 2, 101, 102], [3, 4, 103, 4], [4, 6, 105, 106], [1, 8, 107, 108], [9, 10, 1, 110]]

DISTINCT = [[10 * i + k for k in range(4)] for i in range(N)]


@dataclass(frozen=True)
class Case:
    """One objective, and the data it is tried on."""

    similarity: str = "cosine"
    tau: float = 0.3
    columns: str | None = "positives"
    weight: float = 1.0
    hard: int = 0
    alpha: float = 1.0
    smoothing: float = 0.0
    duplicates: bool = False
    mask: bool = True

    def objective(self) -> Objective:
        negatives: list[dict[str, Any]] = []
        if self.columns is not None:
            negatives.append({"kind": "in_batch", "columns": self.columns, "weight": self.weight})
        if self.hard:
            negatives.append({"kind": "hard", "alpha": self.alpha})
        data = {
            "negatives": negatives,
            "similarity": self.similarity,
            "temperature": self.tau,
            "label_smoothing": self.smoothing,
            "mask_duplicates": self.mask,
        }
        return Objective.from_settings(validate(ObjectiveSettings, data, "test"))

    @property
    def keys(self) -> Tensor:
        return torch.tensor(DUPLICATES if self.duplicates else DISTINCT)[:, : 2 + self.hard]


def representations(case: Case, seed: int = 0, dtype: torch.dtype = torch.float64) -> Representations:
    random = torch.Generator().manual_seed(seed)
    anchor, positive = (torch.randn(N, D, generator=random, dtype=torch.float64).to(dtype) for _ in range(2))
    hard = torch.randn(N, 2, D, generator=random, dtype=torch.float64).to(dtype)
    return Representations(anchor, positive, hard[:, : case.hard], case.keys)


def per_anchor(case: Case, reps: Representations) -> Tensor:
    objective = case.objective()
    positive = rowwise_similarity(reps.anchor, reps.positive, objective.scoring.similarity) / case.tau
    columns = [source.columns(reps, objective.scoring).dense() for source in objective.negatives]
    return info_nce_from_logits(positive, *(c.weighted() for c in columns), label_smoothing=case.smoothing)


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
