"""Several frozen encoders whose cosines are averaged."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import torch
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.objective.losses.similarity import pairwise_similarity
from opencse.objective.sides.base import SideText
from opencse.objective.teachers.teacher import (
    Teacher,
    TeacherVectors,
    TextsOf,
    WeightedTeacherSettings,
)
from opencse.objective.vectors.step import Representations, Request


class Panel(nn.Module):
    """The weighted mean of several teachers' cosines (RankCSE, Liu et al. 2023: .33 of one and .67 of another).

    Args:
        settings: of each teacher.
        reader: the part that needs them, for messages.
        of: the texts that they read.
    """

    def __init__(self, settings: Sequence[WeightedTeacherSettings], reader: str, of: TextsOf) -> None:
        super().__init__()
        plain = [one.teacher for one in settings]
        self.teachers = nn.ModuleList([Teacher(one, reader) for one in plain])
        self.weights = [one.weight / sum(other.weight for other in settings) for one in settings]
        self.requests = [
            TeacherVectors(one, of, teacher)
            for one, teacher in zip(plain, self.teachers, strict=True)
            if isinstance(teacher, Teacher)
        ]

    @property
    def reads(self) -> Set[Request[Any]]:
        """The teachers' vectors."""
        return set(self.requests)

    def begin(self, encoder: SentenceEncoder) -> None:
        """Opens the teachers."""
        for request in self.requests:
            request.teacher.begin(encoder)

    def cosines(self, reps: Representations, first: SideText, right: SideText) -> Tensor:
        """(N, N): the mean cosine of each example's text ``left`` with each one's text ``right``."""
        taught = [reps[request] for request in self.requests]
        cosines = [
            weight * pairwise_similarity(one.of(first), one.of(right), "cosine")
            for weight, one in zip(self.weights, taught, strict=True)
        ]
        return torch.stack(cosines).sum(dim=0)


def without_diagonal(square: Tensor) -> Tensor:
    """(N, N) -> (N, N - 1): each row without its own column, in the order of the columns.

    Example:
        >>> without_diagonal(torch.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]])).tolist()
        [[2, 3], [4, 6], [7, 8]]
    """
    n = len(square)
    return square.flatten()[1:].reshape(n - 1, n + 1)[:, :-1].reshape(n, n - 1)
