"""Hard negatives of the data: their order and the weight of an anchor's own."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from contrast_cases import Case, N, per_anchor, representations
from opencse.objective.vectors.step import Representations


@pytest.mark.parametrize("hard", [1, 2])
def test_hard_negatives_in_order_with_alpha_on_their_own_row(hard: int) -> None:
    case = Case(columns=None, hard=hard, alpha=2.5)
    reps, objective = representations(case), case.objective()
    made = objective.negatives[0].columns(reps, objective.scoring).dense()
    assert made.logits.shape == (N, N * hard)
    assert isinstance(made.log_weight, Tensor)
    for i, j, h in itertools.product(range(N), range(N), range(hard)):
        cosine = torch.cosine_similarity(reps.anchor[i], reps.hard[j, h], dim=0)
        assert made.logits[i, h * N + j].item() == pytest.approx(cosine.item() / case.tau, rel=1e-12)
        assert made.log_weight[i, h * N + j].item() == (math.log(2.5) if i == j else 0.0)
    assert objective.negatives_per_anchor(N, hard) == N * hard
    assert not made.left_out.any()


def test_identical_vectors_with_alpha() -> None:
    vectors = torch.ones(N, 3, dtype=torch.float64)
    reps = Representations(vectors, vectors, vectors.unsqueeze(1), torch.arange(3 * N).reshape(N, 3))
    for alpha in (0.25, 3.0):
        expected = math.log(N + (N - 1) + alpha)
        assert per_anchor(Case(hard=1, alpha=alpha), reps).tolist() == pytest.approx([expected] * N, rel=1e-12)
