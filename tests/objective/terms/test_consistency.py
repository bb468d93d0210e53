"""Both views' rankings: the rows that are compared, and the code's other loss."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from opencse.objective.losses.distillation import jensen_shannon, negative_entropy
from opencse.objective.terms.consistency import Consistency
from opencse.objective.vectors.step import Representations
from opencse.settings import validate

N, D = 5, 4


@pytest.mark.parametrize(("scaling", "function"), [("paper", jensen_shannon), ("reference", negative_entropy)])
def test_rows_of_anchors_and_rows_of_positives(scaling: str, function: Any) -> None:
    random = torch.Generator().manual_seed(0)
    a, b = (torch.randn(N, D, generator=random, dtype=torch.float64).requires_grad_() for _ in range(2))
    rows = [[torch.cosine_similarity(a[i], b[j], dim=0) / 0.2 for j in range(N)] for i in range(N)]
    back = [[torch.cosine_similarity(b[i], a[j], dim=0) / 0.2 for j in range(N)] for i in range(N)]
    first, second = (torch.stack([torch.stack(row) for row in some]) for some in (rows, back))
    data = {"kind": "consistency", "scaling": scaling, "temperature": 0.2}
    loss = Consistency(validate(Consistency.Settings, data, "test")).loss(Representations.of(a, b))
    wanted = function(first, second)
    torch.testing.assert_close(loss, wanted, rtol=1e-10, atol=1e-10)
    for one, other in zip(torch.autograd.grad(loss, (a, b)), torch.autograd.grad(wanted, (a, b)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
