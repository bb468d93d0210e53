"""The anchors with added noise as a source of negatives."""

from __future__ import annotations

import math
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from opencse.objective.columns import Own, Scoring, VectorColumns
from opencse.objective.losses.similarity import at_least_float32
from opencse.objective.negatives.base import NegativeSource
from opencse.objective.negatives.pool import nearness
from opencse.objective.noise import centre_and_spread, standard_normal
from opencse.objective.vectors.step import Representations
from opencse.settings import PartSettings


class NoisyAnchor(NegativeSource):
    """Anchors plus Gaussian noise ("GNI to anchor encoder output" of Park's thesis, section 4.3; Table 5).

    Columns of anchor i, weight ``weight`` each, for j = 1 ... N::

        sim(a_i, a_j + sigma * eps_j) / tau           sigma: the anchors' standard deviation in each dimension

    with eps_j standard normal, drawn again at every step and the same for all anchors. sigma divides by N - 1 and takes
    no gradient. The thesis adds the noise "to the encoder output of the anchor", so what is pushed away is that output:
    the gradient flows into a_j too, unless ``detach``. Its words leave no pair out, so the anchor's own noisy copy
    (j = i) is a column, the hardest of all; ``own = false`` leaves it out. The thesis finds this source harmful
    (68.79 against 74.80 without it).

    With ``pool = P`` each a_j gets P copies with noise, of which the hardest is used: the one with the highest cosine
    to an anchor of another example. (The thesis, section 7.3, asks for "selective hard negative samples from large
    generated pool"; the measure is ours.)

    Another example whose anchor or positive is the same text as anchor i or its positive is left out of row i (unless
    ``mask_duplicates`` is off); the own copy stays, on purpose.

    Example:
        >>> import torch
        >>> reps = Representations.of(torch.eye(3), torch.eye(3))
        >>> NoisyAnchor().columns(reps, Scoring()).shape
        (3, 3)
    """

    class Settings(PartSettings):
        """Settings of `NoisyAnchor`."""

        kind: Literal["noisy_anchor"] = "noisy_anchor"
        own: bool = True
        detach: bool = False
        weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
        pool: int = Field(default=1, ge=1, le=1_048_576)

    settings: Settings

    def count(self, batch_size: int, hard: int) -> int:
        """N, or N - 1 without the own copy."""
        del hard
        return batch_size if self.settings.own else batch_size - 1

    def columns(self, reps: Representations, scoring: Scoring) -> VectorColumns:
        """(N, N) columns; the diagonal excluded if ``own`` is off."""
        return VectorColumns(
            reps.anchor,
            self._noisy(reps),
            scoring,
            log_weight=math.log(self.settings.weight),
            own=Own(excluded=not self.settings.own),
            anchor_keys=reps.keys[:, :2],
            column_keys=reps.keys[:, :2],
        )

    def _noisy(self, reps: Representations) -> Tensor:
        anchors = at_least_float32(reps.anchor.detach() if self.settings.detach else reps.anchor)
        _, sd = centre_and_spread(anchors.detach())
        noise = self.noise(reps)
        offset = sd * standard_normal(anchors.shape, anchors, noise)
        if self.settings.pool > 1:
            still = anchors.detach()
            near = nearness(still + offset, still, others=True)
            for _ in range(self.settings.pool - 1):
                other = sd * standard_normal(anchors.shape, anchors, noise)
                other_near = nearness(still + other, still, others=True)
                offset = torch.where((other_near > near).unsqueeze(1), other, offset)
                near = torch.maximum(near, other_near)
        return anchors + offset
