"""The hard negatives of the data as a source of negatives."""

from __future__ import annotations

import math
from collections.abc import Set
from typing import Any, Literal

from opencse.errors import UserError
from opencse.objective.columns import AnyColumns, Own, Scoring, VectorColumns
from opencse.objective.negatives.in_batch import Guided
from opencse.objective.teachers.teacher import GuideSettings
from opencse.objective.vectors.requests import HardNegatives
from opencse.objective.vectors.step import Representations, Request
from opencse.settings import AboveZero, FromZero, PartSettings


class Hard(Guided):
    """The data's hard negatives (SimCSE, eq. 5 and 8).

    Columns of anchor i: ``sim(a_i, h_j) / tau`` for every example j, its own (j = i) with weight ``alpha``,
    the others with weight 1; with H hard negatives per example, N * H columns.

    ``hardness = h`` adds ``h * sim(a_i, h_j)``, without its gradient, to the logit: near ones are pushed away more
    (`opencse.objective.losses.hardness_log_weight`). ``hardness_of`` says in which columns: the anchor's own hard
    negatives (sentence-transformers' ``hardness_mode="hard_negatives"``; EmbeddingGemma, Vera et al. 2025, takes 5),
    the others' (with ``in_batch.hardness``, its ``"in_batch_negatives"``), or all (with it, its ``"all_negatives"``).

    If ``objective.directions`` has the columns' direction, that one has none: they are negatives of the anchors.

    The authors' code takes log(alpha) itself as its setting (0 there is ``alpha = 1`` here); here the
    logarithm is taken inside. A hard negative that is the same text as anchor i or its positive is left
    out of row i (unless ``mask_duplicates`` is off); with ``guide`` also one that a teacher takes for too near to
    anchor i, its own among them (`opencse.objective.teachers.teacher`).

    Example:
        >>> import torch
        >>> reps = Representations.of(torch.eye(2), torch.eye(2), hard=torch.ones(2, 1, 2))
        >>> source = Hard(Hard.Settings(alpha=2.0))
        >>> source.columns(reps, Scoring(temperature=1.0)).dense().weighted()  # log(2) more on the own hard negative
        tensor([[1.4003, 0.7071],
                [0.7071, 1.4003]])
    """

    recordable = True

    of_both_sides = False

    class Settings(PartSettings):
        """Settings of `Hard`."""

        kind: Literal["hard"] = "hard"
        alpha: AboveZero = 1.0
        hardness: FromZero = 0.0
        hardness_of: Literal["own", "others", "all"] = "own"
        guide: GuideSettings | None = None

    settings: Settings
    guide_reads = "all"

    @property
    def reads(self) -> Set[Request[Any]]:
        """The hard negatives, in addition to the views, and a teacher's vectors."""
        return {*super().reads, HardNegatives()}

    def check_data(self, source: str, hard: int, only_hard: bool) -> None:
        """Refuses data without hard negatives if there is no other source."""
        if not hard and only_hard:
            raise UserError(
                f"{source}: the objective has no negatives but the data's hard ones, and its rows hold none; "
                "name a third column, or add the in_batch negatives"
            )

    def count(self, batch_size: int, hard: int) -> int:
        """N * H."""
        return batch_size * hard

    def columns(self, reps: Representations, scoring: Scoring) -> AnyColumns:
        """(N, N * H) columns: all examples' first hard negatives, then all second ones, ..."""
        n, count, size = reps.hard.shape
        flat = reps.hard.transpose(0, 1).reshape(n * count, size)
        keys = reps.keys[:, 2:].T.reshape(n * count)
        hardness, of = self.settings.hardness, self.settings.hardness_of
        columns = VectorColumns(
            reps.anchor,
            flat,
            scoring,
            hardness=0.0 if of == "own" else hardness,
            own=Own(log_weight=math.log(self.settings.alpha), texts=True, hardness=0.0 if of == "others" else hardness),
            anchor_keys=reps.keys[:, :2],
            column_keys=keys.unsqueeze(1),
        )
        if self.guide is None:
            return columns
        taught = self.guide.taught(reps)
        right = taught.hard.transpose(0, 1).reshape(n * count, taught.hard.shape[2])
        return self.guide.mask(columns, taught, taught.anchor, right)
