"""The geometry of a model's vectors in one record: alignment, uniformity, anisotropy, spectrum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import FiniteFloat

from opencse.analysis.alignment import alignment, all_pairs
from opencse.analysis.spectrum import correlation_rank, effective_rank, moments
from opencse.analysis.tiles import require_vectors
from opencse.arrays import Vectors
from opencse.errors import UserError
from opencse.settings import Settings

LIMIT = 20_000
"""The most vectors of which all pairs are compared; STS-B has fewer sentences."""

FIRST = (1, 3, 10, 30, 100)
"""Counts of principal components whose share of the variance is recorded."""


class Positives(Settings):
    """Measures of the positive pairs.

    Attributes:
        n: pairs.
        alignment: mean squared distance of the two sides at unit length, in [0, 4]; lower is nearer.
        correlation_rank: rank of the correlation matrix of the two sides' dimensions, at most min(n, d).
    """

    n: int
    alignment: FiniteFloat
    correlation_rank: int


class Geometry(Settings):
    """The geometry of n vectors, each L2-normalised.

    Attributes:
        n: vectors.
        dimension: d.
        uniformity: log mean exp(-t ||u - v||^2) over all pairs of ``uniformity_n`` vectors; lower is more even.
        t: of the uniformity.
        uniformity_n: vectors whose pairs were taken: n, or fewer, drawn at random, where n is above the limit.
        least_cosine: the lowest cosine of those pairs.
        seed: of that draw.
        mean_cosine: over all pairs of the n vectors (anisotropy), exact.
        sum_gram: sum of all elements of W W^T (SimCSE, section 5), exact. Above ``top_eigenvalue`` if no cosine is
            negative; ``sum_gram / n`` is never above it.
        top_eigenvalue: the largest eigenvalue of W W^T, in [n / d, n].
        singular_values: of W, divided by the largest (SimCSE, Fig. F.1), falling; min(n, d) values.
        effective_rank: exp of the entropy of the singular values (Roy and Vetterli 2007), 1 to min(n, d).
        variance_first: share of the variance about the mean in the first k principal components, by k; None where
            all vectors have one direction.
        positives: of positive pairs, if some were given.
    """

    n: int
    dimension: int
    uniformity: FiniteFloat
    t: FiniteFloat
    uniformity_n: int
    least_cosine: FiniteFloat
    seed: int
    mean_cosine: FiniteFloat
    sum_gram: FiniteFloat
    top_eigenvalue: FiniteFloat
    singular_values: list[FiniteFloat]
    effective_rank: FiniteFloat
    variance_first: dict[int, FiniteFloat] | None
    positives: Positives | None = None


def geometry(
    vectors: Vectors,
    positives: tuple[Vectors, Vectors] | None = None,
    *,
    t: float = 2.0,
    first: Sequence[int] = FIRST,
    limit: int = LIMIT,
    seed: int = 0,
) -> Geometry:
    """Measures one set of vectors; ``alignment``, ``uniformity`` and ``Moments`` have the formulas.

    All measures are exact up to ``limit`` vectors. Above, the uniformity and the lowest cosine are those of ``limit``
    vectors, drawn without replacement by a separate generator; the record has their number. 100,000 x 768 take some 15
    seconds of one core and 100 MB in addition to the vectors.

    Args:
        vectors: (n, d), any length.
        positives: (p, d) each: the two sides of positive pairs.
        t: of the uniformity.
        first: counts of principal components whose share of the variance is recorded; counts above d are left out.
        limit: the most vectors of which all pairs are compared.
        seed: of the draw.

    Raises:
        UserError: for fewer than 2 vectors, no positive pair, a vector of zeros, NaN or infinite values, t not above
            0, or a limit below 2.
        ValueError: if an array is not (n, d), or the sides of the positives differ in shape.

    Example:
        >>> shape = geometry(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
        >>> round(shape.mean_cosine, 3), round(shape.effective_rank, 2), shape.positives
        (0.471, 1.97, None)
    """
    require_vectors(vectors, 2)
    if limit < 2:
        raise UserError(f"limit is the number of vectors whose pairs are taken, at least 2, not {limit}")
    of_positives = None
    if positives is not None:
        of_positives = Positives(
            n=len(positives[0]), alignment=alignment(*positives), correlation_rank=correlation_rank(*positives)
        )
    sums = moments(vectors)
    n, singular = sums.n, sums.singular_values()
    sample = (
        vectors if n <= limit else vectors[np.sort(np.random.default_rng(seed).choice(n, size=limit, replace=False))]
    )
    pairs = all_pairs(sample, t)
    return Geometry(
        n=n,
        dimension=vectors.shape[1],
        uniformity=pairs.uniformity,
        t=t,
        uniformity_n=len(sample),
        least_cosine=pairs.least,
        seed=seed,
        mean_cosine=sums.mean_cosine(),
        sum_gram=sums.sum_of_gram(),
        top_eigenvalue=float(singular[0] ** 2),
        singular_values=(singular / singular[0]).tolist(),
        effective_rank=effective_rank(singular),
        variance_first=sums.variance_shares(first),
        positives=of_positives,
    )
