"""The other examples of the batch as a source of negatives."""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.columns import AnyColumns, Own, Scoring, VectorColumns
from opencse.objective.negatives.base import NegativeSource
from opencse.objective.registry import build
from opencse.objective.sides.base import Sides, SidesSettings
from opencse.objective.sides.kinds import Views
from opencse.objective.teachers.teacher import Guide, GuideSettings, TextsOf
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.settings import AboveZero, FromZero, PartSettings


class Guided(NegativeSource):
    """A source of which a teacher may take columns out, by the setting ``guide``."""

    guide_reads: ClassVar[TextsOf]

    def __init__(self, settings: PartSettings | None = None) -> None:
        super().__init__(settings)
        guide = self.settings.guide
        self.guide = None if guide is None else Guide(guide, f"{self.kind} negatives", self.guide_reads)

    @property
    def reads(self) -> Set[Request[Any]]:
        """The vectors of the views, and a teacher's."""
        return {*super().reads, *([] if self.guide is None else [self.guide.request])}

    @property
    def gives_logits(self) -> bool:
        """Where the logits of false negatives are 0."""
        return self.guide is not None and self.guide.settings.effect == "zero_logit"

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Opens its teacher."""
        if self.guide is not None:
            self.guide.begin(encoder)


class InBatch(Guided):
    """The other examples of the batch (SimCSE, eq. 1 and 4).

    Columns of anchor i: ``sim(a_i, b_j) / tau`` for j != i, weight ``weight`` each, where (a, b) are the vectors
    that ``of`` names: the two views, or the same with more or less noise. ``of = { kind = "clean" }`` and
    ``weight = m`` are SimCSE++'s off-dropout negatives (eq. 3): both sides without dropout, with gradient. With
    ``columns = "positives_and_anchors"`` also ``sim(a_i, a_j) / tau`` for j != i, as in NT-Xent
    (2N - 1 terms in the denominator in all); SimCSE has the N positives only.

    ``hardness = h`` adds ``h * sim(a_i, b_j)``, without its gradient, to the logit: each negative has the weight
    ``exp(h * sim)``, so that near ones are pushed away more (`opencse.objective.losses.hardness_log_weight`;
    sentence-transformers' ``hardness_mode="in_batch_negatives"``; Lan et al. 2025 take 9). It is what ESimCSE's section
    7 leaves to the future: "to improve the discrimination between different negative pairs".

    An example whose anchor or positive is the same text as anchor i or its positive is left out of row i
    (unless ``mask_duplicates`` is off): it would be pushed away from itself. With ``guide``, so is one that a teacher
    takes for too near to anchor i (`opencse.objective.teachers.teacher`); the log then has ``guide_masked``, how many
    examples that are per anchor.

    Example:
        >>> reps = Representations.of(torch.eye(2), torch.eye(2))
        >>> InBatch().columns(reps, Scoring()).dense().weighted()  # the own positive is left out
        tensor([[-inf, 0.],
                [0., -inf]])
    """

    class Settings(PartSettings):
        """Settings of `InBatch`."""

        kind: Literal["in_batch"] = "in_batch"
        of: SidesSettings = Views.Settings()
        columns: Literal["positives", "positives_and_anchors"] = "positives"
        weight: AboveZero = 1.0
        hardness: FromZero = 0.0
        guide: GuideSettings | None = None

    settings: Settings
    guide_reads = "views"

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.sides: Sides = build(self.settings.of)
        self.recordable = self.guide is None and self.sides.recordable

    @property
    def reads(self) -> Set[Request[Any]]:
        """What the similarities are taken between, and a teacher's vectors."""
        return {*self.sides.reads, *([] if self.guide is None else [self.guide.request])}

    def check(self, objective: Any) -> None:  # noqa: ANN401 - an `Objective`
        """Refuses a second direction that its sides do not have."""
        directions = objective.directions
        if directions != "rows" and self.sides.same_mirrored:
            raise UserError(
                f"{self.name}: of = {self.sides.kind} has the same vectors in both directions, so objective.directions "
                f"= {directions} adds nothing; set it to rows, or choose other vectors"
            )

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Prepares its sides and its teacher."""
        super().begin(encoder, batch_size=batch_size, seed=seed)
        self.sides.begin(encoder, batch_size=batch_size, seed=seed)

    def after_backward(
        self, encoder: SentenceEncoder, inputs: Sequence[StepInputs], reps: Sequence[Representations]
    ) -> None:
        """Lets its sides update their state."""
        self.sides.after_backward(encoder, inputs, reps)

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        """The figures of its sides, and how many other examples the teacher takes for too near to an anchor."""
        masked = {} if self.guide is None else {"guide_masked": self.guide.per_anchor(reps)}
        return {**self.sides.diagnose(reps), **masked}

    def count(self, batch_size: int, hard: int) -> int:
        """N - 1, or 2N - 2."""
        return (batch_size - 1) * (1 if self.settings.columns == "positives" else 2)

    def columns(self, reps: Representations, scoring: Scoring) -> AnyColumns:
        """(N, N) or (N, 2N) columns, the diagonal excluded."""
        anchors, positives = self.sides.of(reps, lambda: self.noise(reps))
        others = [positives]
        if self.settings.columns == "positives_and_anchors":
            others.append(anchors)
        keys = reps.keys[:, :2]
        columns = VectorColumns(
            anchors,
            positives if len(others) == 1 else torch.cat(others),  # a copy would be one more set of vectors
            scoring,
            log_weight=math.log(self.settings.weight),
            hardness=self.settings.hardness,
            own=Own(excluded=True),
            anchor_keys=keys,
            column_keys=keys.repeat(len(others), 1),
        )
        if self.guide is None:
            return columns
        taught = self.guide.taught(reps)
        teacher_anchors, right = (taught.of(text) for text in self.sides.texts)
        return self.guide.mask(
            columns, taught, teacher_anchors, right if len(others) == 1 else torch.cat([right, teacher_anchors])
        )
