"""The other examples of the batch: how many columns an anchor gets."""

from __future__ import annotations

import pytest

from contrast_cases import Case, N, representations


@pytest.mark.parametrize(("columns", "wanted"), [("positives", N - 1), ("positives_and_anchors", 2 * N - 2)])
def test_in_batch_counts_its_columns(columns: str, wanted: int) -> None:
    case = Case(columns=columns)
    objective = case.objective()
    (made,) = (source.columns(representations(case), objective.scoring).dense() for source in objective.negatives)
    assert (~made.left_out).sum(dim=1).tolist() == [wanted] * N
    assert objective.negatives_per_anchor(N, 0) == wanted
