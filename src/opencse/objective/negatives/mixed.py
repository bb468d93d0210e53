"""Negatives that are mixed of an anchor's own positive and another one."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from opencse.objective.columns import LogitColumns, Scoring
from opencse.objective.losses.negatives import mixed_vectors
from opencse.objective.negatives.base import NegativeSource
from opencse.objective.vectors.step import Representations
from opencse.settings import PartSettings


class Mixed(NegativeSource):
    """Mixtures of the anchor's own positive and another example's (MixCSE, Zhang et al. 2022, eq. 6).

    The column of anchor i: ``sim(a_i, m_i) / tau``, with m_i a mixture of the positives, without gradient::

        m_i = share * b_i + (1 - share) * b_j        each of length 1 (``normalised``), j = (i + s) mod N

    s is drawn at every step from 1 ... N - 1 (``other = "drawn"``), or 1 (``"next"``). ``share`` is the paper's lambda.

    The authors' code: ``columns = "all"`` gives every mixture m_k to every anchor, N columns; ``mirrored`` adds the
    same of the anchors, ``sim(w_i, b_k) / tau`` with w_i mixed of a_i and a_j, whose gradient reaches b_k. There m_k
    with k + s = i has 1 - share of anchor i's own positive. The code sets that logit to 0, so that the column still
    counts as ``exp(0)`` (``collisions = "zero"``); ``"leave_out"`` leaves it out, which the paper needs nowhere.

    An own mixture whose other sentence is the same text is left out, and so is, with ``columns = "all"``, each other
    mixture that holds the anchor's text (unless ``mask_duplicates`` is off). All logits are made at once.

    Example:
        >>> reps = Representations.of(torch.eye(3), torch.eye(3))
        >>> Mixed(Mixed.Settings(other="next")).columns(reps, Scoring(temperature=1.0)).logits
        tensor([[0.2425],
                [0.2425],
                [0.2425]])
    """

    class Settings(PartSettings):
        """Settings of `Mixed`."""

        kind: Literal["mixed"] = "mixed"
        share: float = Field(default=0.2, gt=0, lt=1)
        other: Literal["drawn", "next"] = "drawn"
        normalised: bool = True
        columns: Literal["own", "all"] = "own"
        mirrored: bool = False
        collisions: Literal["leave_out", "zero"] = "leave_out"

    settings: Settings

    @property
    def gives_logits(self) -> bool:
        """It does."""
        return True

    def count(self, batch_size: int, hard: int) -> int:
        """1 or N, and as many again if mirrored."""
        del hard
        return (1 if self.settings.columns == "own" else batch_size) * (2 if self.settings.mirrored else 1)

    def columns(self, reps: Representations, scoring: Scoring) -> LogitColumns:
        """(N, 1) or (N, N) columns; twice as many if mirrored."""
        settings = self.settings
        n, device = len(reps.anchor), reps.anchor.device
        shift: Tensor | int = 1
        if settings.other == "drawn":
            shift = torch.randint(1, max(2, n), (), generator=self.noise(reps), device=device)  # a number would wait
        logits = [self._logits(reps.anchor, self._mixed(reps.positive, shift), scoring)]
        if settings.mirrored:
            logits.append(self._logits(self._mixed(reps.anchor, shift), reps.positive, scoring))
        collide, same = self._collisions(reps.keys[:, :2], shift)
        blocks = [(collide, same), (collide.T, same.T)] if settings.columns == "all" else [(collide, same)] * 2
        mixtures = torch.cat(logits, dim=1)
        collisions, duplicates = (torch.cat(masks, dim=1) for masks in zip(*blocks[: len(logits)], strict=True))
        if settings.collisions == "zero":
            mixtures = mixtures.masked_fill(collisions, 0.0)
        return LogitColumns(
            mixtures,
            excluded=collisions if settings.collisions == "leave_out" else None,
            duplicates=duplicates if scoring.mask_duplicates else None,
        )

    def _collisions(self, keys: Tensor, shift: Tensor | int) -> tuple[Tensor, Tensor]:
        """Masks of the columns: where the other sentence of mixture k is anchor i, and where one is i's text twice."""
        n = len(keys)
        i = torch.arange(n, device=keys.device).unsqueeze(1)
        k = i.T if self.settings.columns == "all" else i
        other = (k + shift) % n
        same = [(number != i) & same_pairs(keys[i], keys[number]) for number in (k, other)]
        return other == i, same[0] | same[1]

    def _mixed(self, vectors: Tensor, shift: Tensor | int) -> Tensor:
        return mixed_vectors(vectors, shift, self.settings.share, normalised=self.settings.normalised)

    def _logits(self, anchors: Tensor, right: Tensor, scoring: Scoring) -> Tensor:
        if self.settings.columns == "own":
            return scoring.own_logits(anchors, right).unsqueeze(1)
        return scoring.logits(anchors, right)


def same_pairs(a: Tensor, b: Tensor) -> Tensor:
    """(..., A), (..., B) keys -> (...) bool: whether one of a's texts is one of b's."""
    return (a.unsqueeze(-1) == b.unsqueeze(-2)).any(dim=-1).any(dim=-1)
