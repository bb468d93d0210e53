"""Similarities against loops."""

from __future__ import annotations

import math

import pytest
import torch

from opencse.objective.losses.similarity import SimilarityKind, pairwise_similarity, rowwise_similarity


@pytest.mark.parametrize("kind", ["cosine", "dot"])
def test_similarities_by_loops(kind: SimilarityKind) -> None:
    a, b = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    table = pairwise_similarity(a, b, kind)
    for i, left in enumerate(a.tolist()):
        for j, right in enumerate(b.tolist()):
            expected = sum(x * y for x, y in zip(left, right, strict=True))
            if kind == "cosine":
                expected /= math.hypot(*left) * math.hypot(*right)
            assert table[i, j].item() == pytest.approx(expected, rel=1e-12)
    torch.testing.assert_close(rowwise_similarity(a, b, kind), table.diagonal())
