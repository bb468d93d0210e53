"""The cosines of random pairs of a corpus: how similar two of its texts are by chance."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat, model_validator

from opencse.analysis.tiles import require_vectors
from opencse.arrays import Vectors
from opencse.errors import UserError
from opencse.settings import Settings
from opencse.statistics.correlation import cosine_of_pairs

SHOWN = (1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0, 99.9)
"""The percents that are shown."""

PERCENTS = (*(k / 10 for k in range(10)), *map(float, range(1, 99)), *(99 + k / 10 for k in range(10)), 99.99, 100.0)
"""The percents recorded: every whole one, every tenth of one in the tails, and one beyond."""


class RandomPairs(Settings):
    """The cosines of random pairs of texts, as quantiles.

    Attributes:
        texts: vectors the pairs are of.
        pairs: pairs taken.
        exact: whether these are all pairs; else they were drawn, with replacement.
        seed: of the draw.
        percents: rising, from 0 to 100.
        cosines: at each percent, the cosine that this percent of the pairs does not exceed.
    """

    texts: int
    pairs: int
    exact: bool
    seed: int
    percents: list[FiniteFloat]
    cosines: list[FiniteFloat]

    @model_validator(mode="after")
    def _rises(self) -> Self:
        rising = (np.diff(self.percents) > 0).all() and (np.diff(self.cosines) >= 0).all()
        if len(self.percents) != len(self.cosines) or not rising or not self.percents:
            raise ValueError("percents and cosines must be of one length and rise")
        if self.percents[0] != 0 or self.percents[-1] != 100:
            raise ValueError("percents must begin at 0 and end at 100")
        return self

    def quantile(self, percent: float) -> float:
        """Returns the cosine that ``percent`` % of the pairs do not exceed, by linear interpolation.

        Raises:
            UserError: for a percent outside 0 to 100.
        """
        if not 0 <= percent <= 100:
            raise UserError(f"a percent is from 0 to 100, not {percent}")
        return float(np.interp(percent, self.percents, self.cosines))

    def quantiles_by_percent(self) -> dict[float, float]:
        """Returns the quantiles by percent: 1, 5, 25, 50, 75, 95, 99, 99.9."""
        return {percent: self.quantile(percent) for percent in SHOWN}

    def percentile_of(self, cosine: float) -> float:
        """Returns the percent of the random pairs that have a lower cosine; 0 below all of them, 100 above.

        It is interpolated linearly, and good to about 0.1 in the tails.

        Raises:
            UserError: for a cosine that is NaN.
        """
        if np.isnan(cosine):
            raise UserError("a cosine is a number from -1 to 1, not NaN")
        after = int(np.searchsorted(self.cosines, cosine, side="left"))
        if after == 0:
            return 0.0
        if after == len(self.cosines):
            return 100.0
        low, high = self.cosines[after - 1], self.cosines[after]
        start, end = self.percents[after - 1], self.percents[after]
        return start + (end - start) * (cosine - low) / (high - low)


def random_pairs(vectors: Vectors, *, pairs: int = 100_000, seed: int = 0) -> RandomPairs:
    """Measures the quantiles of the cosines of random pairs of vectors.

    All n (n - 1) / 2 pairs are taken where they are not more than ``pairs``; else ``pairs`` of them are drawn by a
    separate generator, i uniformly, j uniformly among the others, with replacement. Quantiles are numpy's, interpolated
    linearly. A quantile at p % then has a standard error of sqrt(p (100 - p) / pairs) percents: 0.01 at
    99.9 % and 100,000 pairs, apart from the choice of the texts.

    Args:
        vectors: (n, d), of different texts: a text that occurs twice has cosine 1 with itself.
        pairs: how many to take.
        seed: of the draw.

    Raises:
        UserError: for fewer than 2 vectors, NaN or infinite values, or ``pairs`` below 1.
        ValueError: if the array is not (n, d).

    Example:
        >>> cosines = random_pairs(np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]))
        >>> cosines.pairs, cosines.exact, cosines.quantile(50), cosines.percentile_of(0.7)
        (3, True, 0.6, 75.0)
    """
    require_vectors(vectors, 2)
    if pairs < 1:
        raise UserError(f"pairs is the number of random pairs, at least 1, not {pairs}")
    n = len(vectors)
    exact = n * (n - 1) // 2 <= pairs
    first, second = np.triu_indices(n, 1) if exact else _draw(n, pairs, np.random.default_rng(seed))
    cosines = cosine_of_pairs(vectors, first, second)
    quantiles = np.quantile(cosines, np.array(PERCENTS) / 100)
    return RandomPairs(
        texts=n,
        pairs=len(cosines),
        exact=exact,
        seed=seed,
        percents=list(PERCENTS),
        cosines=np.maximum.accumulate(quantiles).tolist(),
    )


def _draw(n: int, pairs: int, generator: np.random.Generator) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Draws two different rows of n, ``pairs`` times."""
    first = generator.integers(0, n, size=pairs, dtype=np.intp)
    other = generator.integers(0, n - 1, size=pairs, dtype=np.intp)
    return first, other + (other >= first)
