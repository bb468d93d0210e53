"""The contrast of a batch: dense up to the bytes it needs, then in tiles."""

from __future__ import annotations

import pytest
import torch

from opencse.objective.columns import LogitColumns, VectorColumns
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.step import Representations
from opencse.settings import validate

N, D, H = 12, 6, 2


def test_the_dense_loss_is_taken_up_to_the_bytes_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    whole = VectorColumns.dense

    def dense(columns: VectorColumns) -> LogitColumns:
        made.append(columns.shape[1])
        return whole(columns)

    monkeypatch.setattr(VectorColumns, "dense", dense)
    anchor, positive = torch.randn(2, N, D, dtype=torch.float64)
    hard = torch.randn(N, H, D, dtype=torch.float64)
    reps = Representations(anchor, positive, hard, torch.arange(N * (2 + H)).reshape(N, 2 + H))
    needed = 8 * N * (N + H * N)  # float64: in-batch and two hard negatives
    losses = []
    for tile_bytes, columns in ((needed, [N, H * N]), (needed - 1, [])):
        made.clear()
        data = {"negatives": [{"kind": "in_batch"}, {"kind": "hard", "alpha": 2.5}], "tile_bytes": tile_bytes}
        losses.append(Objective.from_settings(validate(ObjectiveSettings, data, "test")).double()(reps).total)
        assert made == columns
    torch.testing.assert_close(*losses, rtol=1e-12, atol=0)
