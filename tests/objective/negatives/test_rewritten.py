"""Columns of rewritten texts: against loops, for either view, weighted; nothing is left out."""

from __future__ import annotations

import math

import pytest
import torch

from opencse.objective.columns import Scoring
from opencse.objective.negatives.rewritten import RewrittenTexts
from opencse.objective.vectors.step import Representations


@pytest.mark.parametrize("side", ["anchor", "positive"])
def test_columns_equal_loops(side: str) -> None:
    generator = torch.Generator().manual_seed(0)
    anchor, positive, changed = (torch.randn(4, 5, generator=generator, dtype=torch.float64) for _ in range(3))
    source = RewrittenTexts(RewrittenTexts.Settings(template="not {text}", side=side, weight=0.5))
    keys = torch.zeros(4, 2, dtype=torch.long)  # equal texts count too
    reps = Representations(anchor, positive, anchor[:, None][:, :0], keys, {source.request: changed})
    logits = source.columns(reps, Scoring(temperature=0.1)).dense().weighted()
    left = anchor if side == "anchor" else positive
    for i in range(4):
        for j in range(4):
            cosine = left[i] @ changed[j] / (left[i].norm() * changed[j].norm())
            assert math.isclose(float(logits[i, j]), float(cosine) / 0.1 + math.log(0.5), abs_tol=1e-10)
    assert source.count(4, 0) == 4
