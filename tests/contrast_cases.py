"""Small contrasts: their settings, and vectors with texts of which some are equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

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
