"""Negatives that are drawn again at each step: a Gaussian of the batch, and anchors with noise."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.columns import FalseNegatives, Own, Pairs, Scoring, VectorColumns
from opencse.objective.contrast import contrast
from opencse.objective.negatives.base import NegativeSource
from opencse.objective.similarity import at_least_float32, centre_and_spread, pairwise_similarity, standard_normal
from opencse.objective.vectors.step import Representations
from opencse.settings import AboveZero, PartSettings, Settings


class GeneratedSettings(PartSettings):
    """Settings of every source of sampled vectors.

    Attributes:
        count: columns per anchor, as a multiple of the batch (1 = N, as in Table 5 of the thesis), rounded; 0 for none,
            which leaves the loss as it is without this source.
        weight: the weight of each column.
        pool: how many vectors are drawn, as a multiple of the batch, of which the ``count`` times N hardest are
            columns: those with the highest cosine to an anchor (Park's thesis, sections 7.3 and 8, which leaves the
            measure open). Unset: as many as there are columns.
        hardest: whether all anchors share the columns nearest to any of them (``batch``), or each anchor has those
            nearest to itself (``anchor``; the pool stays in memory then).
    """

    count: float = Field(default=1.0, ge=0, le=1_048_576)
    weight: AboveZero = 1.0
    pool: float | None = Field(default=None, gt=0, le=1_048_576)
    hardest: Literal["batch", "anchor"] = "batch"

    @model_validator(mode="after")
    def _pool_is_large_enough(self) -> Self:
        if self.pool is not None and self.pool < self.count:
            raise ValueError(f"a pool of {self.pool:g} times the batch has no {self.count:g} to keep; raise pool")
        return self

    def rows(self, batch_size: int) -> int:
        """The number of vectors to sample for a batch of ``batch_size``."""
        return round(self.count * batch_size)


class Generated(NegativeSource):
    """A source of vectors that are sampled at every step and shared by all its anchors.

    Samples are made in float32 at least, autocast or not, and have no gradient: neither into the model that made them
    nor, through the batch's statistics, into the encoder. They have no text, so none is left out as a duplicate.
    """

    settings: GeneratedSettings

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Refuses a share of the batch that is less than one vector."""
        settings = self.settings
        if settings.count > 0 and settings.rows(batch_size) == 0:
            raise UserError(
                f"{settings.kind}: count {settings.count:g} gives no vector for a batch of {batch_size}; set a larger "
                "count"
            )

    def count(self, batch_size: int, hard: int) -> int:
        """``count`` times N, rounded."""
        return self.settings.rows(batch_size)

    def columns(self, reps: Representations, scoring: Scoring) -> VectorColumns:
        """(N, K) columns, K = ``count`` times the anchors of this step, rounded; so many count of each anchor."""
        anchors, settings = at_least_float32(reps.anchor.detach()), self.settings
        rows = settings.rows(len(anchors))
        samples, far = anchors[:0], None
        if rows:
            noise = self.noise(reps)

            def draw(some: int) -> Tensor:
                return self.generate(anchors, some, noise).to(anchors)

            with torch.autocast(anchors.device.type, enabled=False):
                pool = rows if settings.pool is None else max(rows, round(settings.pool * len(anchors)))
                if pool == rows:
                    samples = draw(rows)
                elif settings.hardest == "batch":
                    samples = nearest_of_pool(anchors, draw, pool, rows)
                else:
                    samples, far = nearest_of_each(anchors, draw, pool, rows)
        return VectorColumns(reps.anchor, samples, scoring, log_weight=math.log(settings.weight), false=far)

    @abstractmethod
    def generate(self, anchors: Tensor, rows: int, noise: torch.Generator) -> Tensor:
        """Samples (``rows``, d) vectors, or (0, d) if there is nothing to sample from yet.

        Args:
            anchors: (N, d) of this step, without gradient, float32 at least.
            rows: how many vectors, at least 1.
            noise: the generator of all draws.
        """


POOL_BYTES = 64 * 2**20
"""Most bytes of vectors that are drawn at once, with their similarities to the anchors."""

DrawRows = Callable[[int], Tensor]


def nearest_of_pool(anchors: Tensor, draw: DrawRows, pool: int, count: int) -> Tensor:
    """Draws ``pool`` vectors and returns the ``kept`` ones that are nearest to any anchor, by the cosine.

    Args:
        anchors: (N, d), without gradient.
        draw: draws so many vectors; none if there is nothing to draw from yet.
        pool: how many are drawn, in chunks.
        count: how many are returned.

    Returns:
        (kept, d), the nearest first; (0, d) if nothing was drawn.

    Example:
        >>> drawn = torch.tensor([[0.0, 1.0], [1.0, 0.1], [-1.0, 0.0]])
        >>> nearest_of_pool(torch.tensor([[1.0, 0.0]]), lambda count: drawn, 3, 1)
        tensor([[1.0000, 0.1000]])
    """
    vectors, scores = anchors[:0], anchors[:0, 0]
    for some in _chunks(anchors, draw, pool):
        vectors = torch.cat([vectors, some])
        scores = torch.cat([scores, nearness(some, anchors)])
        # Only the best so far stay in memory, however large the pool is.
        scores, index = scores.topk(min(count, len(scores)))
        vectors = vectors[index]
    return vectors


def nearest_of_each(anchors: Tensor, draw: DrawRows, pool: int, count: int) -> tuple[Tensor, FalseNegatives | None]:
    """Draws ``pool`` vectors, of which each anchor has the ``kept`` ones nearest to itself, by the cosine.

    Args:
        anchors: (N, d), without gradient.
        draw: draws so many vectors; none if there is nothing to draw from yet.
        pool: how many are drawn; their similarities are made in chunks.
        count: how many each anchor has.

    Returns:
        (pool, d), all of them, and which are not columns of which anchor; None if all are.
    """
    drawn, scores = [anchors[:0]], anchors[:, :0]
    for some in _chunks(anchors, draw, pool):
        drawn.append(some)
        scores = torch.cat([scores, pairwise_similarity(anchors, some, "cosine")], dim=1)
        scores = scores.topk(min(count + 1, scores.shape[1]), dim=1).values
    vectors = torch.cat(drawn)
    if len(vectors) <= count:
        return vectors, None
    # farther than halfway between the last that is kept and the next, so that rounding moves none across
    limits = (scores[:, count - 1] + scores[:, count]) / 2
    return vectors, FalseNegatives(-anchors, vectors, -limits)


def nearness(vectors: Tensor, anchors: Tensor, *, others: bool = False) -> Tensor:
    """The cosine of each vector with the anchor that is nearest to it.

    Args:
        vectors: (K, d).
        anchors: (N, d).
        others: vector k is of anchor k, which does not count, unless it is the only one.

    Returns:
        (K,).
    """
    at_once = max(1, POOL_BYTES // (len(anchors) * anchors.element_size()))
    scores = []
    for start in range(0, len(vectors), at_once):
        similarity = pairwise_similarity(vectors[start : start + at_once], anchors, "cosine")
        if others and len(anchors) > 1:
            # Below every cosine: a vector is not its own neighbour.
            similarity.diagonal(start).fill_(-2.0)
        scores.append(similarity.amax(dim=1))
    return torch.cat(scores) if scores else vectors[:, 0]


def _chunks(anchors: Tensor, draw: DrawRows, pool: int) -> Iterator[Tensor]:
    at_once = max(1, POOL_BYTES // (sum(anchors.shape) * anchors.element_size()))
    for start in range(0, pool, at_once):
        drawn = draw(min(at_once, pool - start))
        if len(drawn) == 0:
            return
        yield drawn


DRAWN_BYTES = 64 * 2**20
"""Most bytes of noise that ``covariance = "full"`` draws at once."""


class AscendSettings(Settings):
    """How samples are moved up the gradient of the contrast.

    Attributes:
        steps: how many times.
        rate: length of each move.

    Example:
        >>> AscendSettings(steps=2).rate
        0.001
    """

    steps: int = Field(default=1, ge=1, le=1_000)
    rate: AboveZero = 1e-3


class Gaussian(Generated):
    """Gaussian noise sampling: vectors from N(mu_z, sigma_z) of the batch (Park's thesis, section 4.3; Tables 5, 7).

    With z_1 ... z_N the anchors' vectors after the training head, mu and sigma their mean and standard deviation in
    each dimension, and eps_k standard normal noise, the columns of anchor i are ``sim(a_i, g_k) / tau``, weight
    ``weight`` each, for k = 1 ... ``count`` times N::

        g_k = m + s * eps_k                 m = mu or 0 (``mean``), s = sigma or 1 (``sd``), by dimension

    ``mean`` and ``sd`` together are the four rows of Table 7, ``count`` the axis of Figure 10. The vectors are drawn
    again at every step, the same for all anchors; the statistics take no gradient. Under cosine a scale common to all
    dimensions has no effect, so with ``mean = "zero"`` only the directions of the noise count.

    The thesis's variant "filtered with covariance matrix" takes "the covariance matrix from the anchors in the batch"
    and its "inner product with sampled noise". With Sigma that (d, d) matrix, of rank N - 1 at most and never made:

    - ``covariance = "product"``: ``g_k = Sigma (m + s * eps_k)``, as the words say. Its covariance is
      ``Sigma s^2 Sigma``, so directions in which the batch varies much count more than they do in the batch.
    - ``covariance = "full"``: ``g_k = m + Sigma^(1/2) eps_k``, the Gaussian with the batch's own covariance, which
      takes the place of ``sd``. It is drawn as ``m + (1 / sqrt(N - 1)) sum_j (z_j - mu) eps_kj``.

    ``ascend`` moves the samples before they are used, up the gradient of the contrast of the positives with them alone
    (DCLR, Zhou et al. 2022, arXiv:2205.00656, which draws from N(0, 1): ``mean = "zero"``, ``sd = "one"``)::

        g_k <- g_k + rate * u_k / |u_k|,   u_k = d/dg_k mean_i -log( e^{sim(a_i, b_i)/tau} / (e^{sim(a_i, b_i)/tau} +
                                                   sum_k e^{sim(a_i, g_k)/tau}) ),   ``steps`` times

    sigma and Sigma divide by N - 1, which the thesis leaves open. One anchor alone has sigma 0.

    Example:
        >>> from opencse.objective.columns import Scoring
        >>> from opencse.objective.vectors.step import Representations
        >>> reps = Representations.of(torch.eye(4), torch.eye(4))
        >>> source = Gaussian(Gaussian.Settings(count=0.5))
        >>> source.columns(reps, Scoring()).shape  # 2 columns for each of 4 anchors
        (4, 2)
    """

    class Settings(GeneratedSettings):
        """Settings of `Gaussian`."""

        kind: Literal["gaussian"] = "gaussian"
        mean: Literal["batch", "zero"] = "batch"
        sd: Literal["batch", "one"] = "batch"
        covariance: Literal["none", "full", "product"] = "none"
        ascend: AscendSettings | None = None

        @model_validator(mode="after")
        def _one_scale(self) -> Gaussian.Settings:
            if self.covariance == "full" and self.sd == "one":
                raise ValueError('covariance = "full" holds the scale of every dimension; leave sd at "batch"')
            return self

    settings: Settings

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        if self.settings.ascend is not None:
            self.cannot = (("learned_temperature", "follow the contrast at a fixed temperature (ascend)"),)

    def columns(self, reps: Representations, scoring: Scoring) -> VectorColumns:
        """(N, K) columns, moved up the gradient if the settings say so."""
        columns = super().columns(reps, scoring)
        ascend = self.settings.ascend
        if ascend is None or not len(columns.right):
            return columns
        positive = Pairs(reps.anchor.detach(), reps.positive.detach(), scoring)
        samples = columns.right
        for _ in range(ascend.steps):
            samples = samples.detach().requires_grad_()
            with torch.enable_grad():
                loss = contrast(positive, [VectorColumns(positive.left, samples, scoring)], [[0]]).loss
                (up,) = torch.autograd.grad(loss, samples)
            length = up.norm(dim=1, keepdim=True)
            samples = samples.detach() + ascend.rate * torch.where(length > 0, up / length, up)
        return replace(columns, right=samples)

    def generate(self, anchors: Tensor, rows: int, noise: torch.Generator) -> Tensor:
        """Draws (``rows``, d) vectors: g of the class's formula."""
        settings = self.settings
        mean, sd = centre_and_spread(anchors)
        deviations = (anchors - mean) / max(1, len(anchors) - 1) ** 0.5  # Sigma = deviations^T deviations
        location = mean if settings.mean == "batch" else torch.zeros_like(mean)
        samples: Tensor
        if settings.covariance == "full":
            at_once = max(1, DRAWN_BYTES // (len(anchors) * anchors.element_size()))  # never (K, N) of a large batch
            sizes = [min(at_once, rows - start) for start in range(0, rows, at_once)]
            return torch.cat(
                [location + standard_normal((size, len(anchors)), anchors, noise) @ deviations for size in sizes]
            )
        noises = standard_normal((rows, anchors.shape[1]), anchors, noise)
        samples = location + (noises * sd if settings.sd == "batch" else noises)
        if settings.covariance == "product":
            samples = (samples @ deviations.T) @ deviations
        return samples


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
        weight: AboveZero = 1.0
        pool: int = Field(default=1, ge=1, le=1_048_576)

    settings: Settings

    def count(self, batch_size: int, hard: int) -> int:
        """N, or N - 1 without the own copy."""
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
