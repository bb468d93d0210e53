"""Barlow Twins as an extra loss, optionally with artificial rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.modules.dense import RowNorm
from opencse.objective.losses.dimensions import barlow_twins, barlow_twins_rank
from opencse.objective.losses.similarity import at_least_float32
from opencse.objective.noise import standard_normal
from opencse.objective.terms.base import Term
from opencse.objective.vectors.step import Representations
from opencse.settings import PartSettings
from opencse.streams import seed_of


class BarlowTwins(Term):
    """Barlow Twins: the correlation matrix of the two views' dimensions should be the identity (SimCSE++, eq. 4).

    With z^1, z^2 the (N, D) anchors and positives::

        C_cd = sum_i z^1_ic z^2_id / ( sqrt(sum_i (z^1_ic)^2) sqrt(sum_i (z^2_id)^2) )
        loss = sum_c (1 - C_cc)^2 + off_diagonal * sum_c sum_{d != c} C_cd^2

    (The paper prints a minus before the first sum; Zbontar et al. 2021, whose loss it is, add both.) The paper
    subtracts no mean; Zbontar et al. do: ``centre``. C is at most of rank N, so it cannot become the identity of D > N
    dimensions. ``artificial`` (M) appends M standard normal rows, drawn at each step, to both matrices
    (section 4.2 and Table 2, M = 100, 300, 704) and makes the bound N + M. They are the same rows for both views, as
    in the authors' code: an artificial example agrees with itself. The mean, if it is subtracted, is that of all N + M
    rows. ``scaling = "batch_norm"`` is the loss in an earlier commit of that code, defined there
    and not used: each dimension less its mean, divided by the root of its biased variance plus 1e-5, C their products
    divided by the rows, ``off_diagonal`` .012, one draw of the rows for the whole run (here a new one each step). A
    dimension of zeros (a constant one, if centred) has C_cd = 0 and gets no gradient.

    The log has ``barlow_twins_rank``, the rank of C: at most min(N + M, D), one less if centred and N + M <= D.

    `opencse.objective.losses.barlow_twins` is the loss as a function of two tensors.

    Example:
        >>> reps = Representations.of(torch.eye(3), torch.eye(3))
        >>> BarlowTwins().loss(reps)
        tensor(0.)
        >>> BarlowTwins(BarlowTwins.Settings(artificial=2)).diagnose(reps)
        {'barlow_twins_rank': tensor(3)}
    """

    class Settings(PartSettings):
        """Settings of `BarlowTwins`.

        Attributes:
            weight: of the term. The paper gives none; the default is that of its other term, ``dcl``.
            off_diagonal: lambda_BT. The paper gives none; the default is Zbontar et al.'s.
            artificial: rows appended (M).
            centre: whether the mean of each dimension is subtracted first.
            scaling: ``unit`` divides each dimension by its length, as above; ``batch_norm`` is the authors' code.
            projector: widths of a network that the vectors go through first: linear layers with batch normalisation
                and ReLU between them; empty for none. ``scaling`` normalises what it gives. It starts normal with
                standard deviation .02, is trained with the encoder and dropped at the end (SCD: 4096, 4096, 4096).
        """

        kind: Literal["barlow_twins"] = "barlow_twins"
        weight: float = Field(default=0.1, gt=0, allow_inf_nan=False)
        off_diagonal: float = Field(default=0.005, ge=0, allow_inf_nan=False)
        artificial: int = Field(default=0, ge=0, le=1_048_576)
        centre: bool = False
        scaling: Literal["unit", "batch_norm"] = "unit"
        projector: tuple[Annotated[int, Field(ge=1, le=65_536)], ...] = ()

    settings: Settings

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.projector: nn.Sequential | None = None

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Makes the projector, if its settings have one."""
        super().begin(encoder, batch_size=batch_size, seed=seed)
        if self.settings.projector:
            generator = torch.Generator().manual_seed(seed_of(seed, self.name))
            self.projector = _projector(encoder.training_dimension, self.settings.projector, generator)
            self.projector.to(encoder.device)

    def loss(self, reps: Representations) -> Tensor:
        """`losses.barlow_twins` of the views with the artificial rows."""
        settings = self.settings
        return barlow_twins(
            *self._padded(reps),
            off_diagonal=settings.off_diagonal,
            centre=settings.centre,
            scaling=settings.scaling,
        )

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        """``barlow_twins_rank``: the rank of C."""
        settings = self.settings
        rank = barlow_twins_rank(*self._padded(reps), centre=settings.centre, scaling=settings.scaling)
        return {"barlow_twins_rank": rank}

    def _padded(self, reps: Representations) -> tuple[Tensor, Tensor]:
        """Both views, (N + M, D)."""
        anchor, positive = (self._projected(at_least_float32(side)) for side in (reps.anchor, reps.positive))
        if not self.settings.artificial:
            return anchor, positive
        rows = standard_normal((self.settings.artificial, anchor.shape[1]), anchor, self.noise(reps))
        return torch.cat([anchor, rows]), torch.cat([positive, rows])

    def _projected(self, vectors: Tensor) -> Tensor:
        if not self.settings.projector:
            return vectors
        assert self.projector is not None
        with torch.autocast(vectors.device.type, enabled=False):
            projected: Tensor = self.projector(vectors)
        return projected


def _projector(size: int, widths: Sequence[int], generator: torch.Generator) -> nn.Sequential:
    """Linear layers without bias, with batch normalisation and ReLU between them; weights normal as BERT's, sd .02."""
    layers: list[nn.Module] = []
    for width in widths:
        linear = nn.Linear(size, width, bias=False)
        with torch.no_grad():
            linear.weight.normal_(0.0, 0.02, generator=generator)
        layers += [linear, RowNorm(width, affine=True), nn.ReLU()]
        size = width
    return nn.Sequential(*layers[:-2])
