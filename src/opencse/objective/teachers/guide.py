"""Masks false negatives: columns that a teacher takes for as near to the anchor as its positive."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.objective.columns import AnyColumns, FalseNegatives, VectorColumns
from opencse.objective.losses.similarity import rowwise_similarity
from opencse.objective.teachers.teacher import TaughtVectors, Teacher, TeacherSettings, TeacherVectors, TextsOf
from opencse.objective.vectors.step import Representations

_AT_ONCE = 16
"""Anchors whose similarities are made at once for the log."""


class GuideSettings(TeacherSettings):
    """Settings of `Guide`.

    Attributes:
        strategy: what the teacher's similarity of anchor and column is compared with: the one of anchor and positive
            less the margin (``absolute``), less that share of it (``relative``), or ``limit`` (``fixed``).
        margin: of the first two.
        limit: of the third.
        centred: subtract the batch's mean vector from the teacher's first: vectors of an encoder that was never trained
            on sentences have high cosines throughout.
        effect: the column is left out, or its logit is 0, as in DCLR's code, where its weight multiplies the logit;
            ``hardness`` is of the similarity 0 then.
    """

    strategy: Literal["absolute", "relative", "fixed"] = "absolute"
    margin: float = Field(default=0.0, ge=-2, le=2)
    limit: float = Field(default=0.9, ge=-1, le=1)
    centred: bool = False
    effect: Literal["left_out", "zero_logit"] = "left_out"

    @model_validator(mode="after")
    def _one_number(self) -> GuideSettings:
        unused = "margin" if self.strategy == "fixed" else "limit"
        if unused in self.model_fields_set and getattr(self, unused) != type(self).model_fields[unused].default:
            raise ValueError(f'{unused} has no effect with strategy = "{self.strategy}"')
        return self


class Guide(nn.Module):
    """Finds the false negatives of a source by a teacher's similarities.

    With t the teacher's cosines, column k is no negative of anchor i where ``t(a_i, c_k) > limit_i``::

        absolute    limit_i = t(a_i, b_i) - margin                       GISTEmbed (Solatorio 2024, arXiv:2402.16829)
        relative    limit_i = t(a_i, b_i) - margin * |t(a_i, b_i)|       as sentence-transformers has it
        fixed       limit_i = limit                                      DCLR (Zhou et al. 2022, arXiv:2205.00656), .9

    In unsupervised training positive and anchor are one text, and t(a_i, b_i) is 1: there a margin is needed.

    Args:
        settings: the teacher and the limit.
        reader: the part that needs it, for messages.
        of: the texts that the teacher reads.
    """

    def __init__(self, settings: GuideSettings, reader: str, of: TextsOf) -> None:
        super().__init__()
        self.settings = settings
        plain = settings.teacher
        self.teacher = Teacher(plain, reader)
        self.request = TeacherVectors(plain, of, self.teacher)

    def begin(self, encoder: SentenceEncoder) -> None:
        """Opens the teacher."""
        self.teacher.begin(encoder)

    def taught(self, reps: Representations) -> TaughtVectors:
        """The teacher's vectors of a step, centred if the settings say so."""
        taught = reps[self.request]
        if not self.settings.centred:
            return taught
        mean = torch.cat([taught.anchor, taught.positive]).mean(dim=0)
        return TaughtVectors(taught.anchor - mean, taught.positive - mean, taught.hard - mean)

    def limits(self, taught: TaughtVectors) -> Tensor:
        """(N,): the highest similarity at which a column is still a negative."""
        settings = self.settings
        positive = rowwise_similarity(taught.anchor, taught.positive, "cosine")
        if settings.strategy == "fixed":
            return torch.full_like(positive, settings.limit)
        share = positive.abs() if settings.strategy == "relative" else 1.0
        return positive - settings.margin * share

    def mask(self, columns: VectorColumns, taught: TaughtVectors, anchors: Tensor, right: Tensor) -> AnyColumns:
        """Takes the false negatives out of ``columns``.

        Args:
            columns: of a source.
            taught: the teacher's vectors of the step.
            anchors: (N, t) the teacher's vectors of the texts on the left side.
            right: (K, t) the teacher's vectors of the columns' texts.
        """
        false = FalseNegatives(anchors, right, self.limits(taught))
        if self.settings.effect == "left_out":
            return replace(columns, false=false)
        dense, masked = columns.dense(), false.rows(slice(0, len(anchors)))
        log_weight = dense.log_weight
        if columns.by_nearness:  # what counts as a similarity of 0 is not near either
            by_anchor = None if columns.own is None else replace(columns.own, hardness=0.0)
            plain = replace(columns, hardness=0.0, own=by_anchor).dense().log_weight
            log_weight = torch.where(masked, plain, log_weight)
        return replace(dense, logits=dense.logits.masked_fill(masked, 0.0), log_weight=log_weight)

    def per_anchor(self, reps: Representations) -> Tensor:
        """Scalar: how many of the other examples' positives are false negatives of an anchor, in the mean."""
        taught = self.taught(reps)
        n = len(taught.anchor)
        false = FalseNegatives(taught.anchor, taught.positive, self.limits(taught))
        masked = false.limits.new_zeros(())
        for start in range(0, n, _AT_ONCE):  # never all similarities of a large batch
            some = false.rows(slice(start, min(n, start + _AT_ONCE)))
            masked = masked + some.sum() - some.diagonal(start).sum()
        return masked / n
