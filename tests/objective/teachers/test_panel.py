"""Several teachers' cosines, averaged by their weights."""

from __future__ import annotations

from dataclasses import replace

import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.modules.pooling import Pooling
from opencse.objective.teachers.panel import Panel, without_diagonal
from opencse.objective.teachers.teacher import TaughtVectors, WeightedTeacherSettings
from opencse.objective.vectors.step import Representations

N = 4


def test_the_weighted_mean_of_cosines() -> None:
    random = torch.Generator().manual_seed(0)
    settings = [WeightedTeacherSettings(weight=1.0), WeightedTeacherSettings(pooling=Pooling.CLS, weight=3.0)]
    panel = Panel(settings, "test", "views")
    first, second = (
        TaughtVectors(
            torch.randn(N, size, generator=random), torch.randn(N, size, generator=random), torch.zeros(N, 0, size)
        )
        for size in (3, 5)
    )
    reps = replace(
        Representations.of(torch.eye(N), torch.eye(N)), answers=dict(zip(panel.requests, (first, second), strict=True))
    )
    cosines = panel.cosines(reps, "anchor", "positive")
    for i in range(N):
        for j in range(N):
            a, b = (torch.cosine_similarity(one.anchor[i], one.positive[j], dim=0) for one in (first, second))
            torch.testing.assert_close(cosines[i, j], 0.25 * a + 0.75 * b)
    assert not torch.allclose(cosines, panel.cosines(reps, "anchor", "anchor"))


def test_every_teacher_is_opened(encoder: SentenceEncoder) -> None:
    panel = Panel([WeightedTeacherSettings(), WeightedTeacherSettings(pooling=Pooling.CLS)], "test", "anchors")
    panel.begin(encoder)
    assert [request.teacher.model.pooling for request in panel.requests] == [Pooling.MEAN, Pooling.CLS]
    assert panel.reads == set(panel.requests)


def test_rows_without_their_own_column() -> None:
    square = torch.arange(16).reshape(4, 4)
    assert without_diagonal(square).tolist() == [
        [row[j] for j in range(4) if j != i] for i, row in enumerate(square.tolist())
    ]
