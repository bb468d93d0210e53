"""The guard against forgetting: general graded pairs, on which an encoder may not fall far below its start."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from opencse.encoder.encoder import SentenceEncoder
from opencse.evaluation import ScoredPairs, distinct, embed, spearman
from opencse.selection.finding import Floats

TOLERANCE = 1.0
"""Points of Spearman x 100 that may be lost for a gain elsewhere."""
_RESAMPLES = 400
_SEED = 0


@dataclass(frozen=True)
class Guarded:
    """What the guard found.

    Attributes:
        value: Spearman x 100 on its pairs.
        drop: the start's value minus this one.
        error: the bootstrap's standard error of the drop, over pairs.
    """

    value: float
    drop: float
    error: float

    @property
    def forgets(self) -> bool:
        """Whether more was lost than is tolerated, beyond the noise of the pairs (one-sided, 5 %)."""
        return self.drop - 1.645 * self.error > TOLERANCE


@dataclass(frozen=True)
class Guard:
    """Graded pairs that watch for forgetting.

    Attributes:
        name: what a person calls them.
        pairs: sentences and gold scores.
    """

    name: str
    pairs: ScoredPairs

    def cosines(self, encoder: SentenceEncoder) -> Floats:
        """(n,) the encoder's similarities of the pairs."""
        embedded = embed(encoder.encode, distinct([self.pairs.first, self.pairs.second]))
        return embedded.cosines(self.pairs.first, self.pairs.second)

    def compare(self, before: Floats, after: Floats) -> Guarded:
        """An encoder's similarities beside the start's; the drop's standard error is by resampling pairs."""
        gold = self.pairs.scores
        random = np.random.default_rng(_SEED)
        drops = []
        for _ in range(_RESAMPLES):
            drawn = random.integers(len(gold), size=len(gold))
            if len(np.unique(gold[drawn])) > 1:
                drops.append(spearman(before[drawn], gold[drawn]) - spearman(after[drawn], gold[drawn]))
        value = 100 * spearman(after, gold)
        error = 100 * float(np.std(drops, ddof=1)) if len(drops) > 1 else math.inf
        return Guarded(value, 100 * spearman(before, gold) - value, error)
