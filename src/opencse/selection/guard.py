"""The guard against forgetting: general graded pairs, on which an encoder may not fall far below its start."""

from __future__ import annotations

from dataclasses import dataclass

from opencse.analysis.significance import paired_bootstrap
from opencse.encoder.encoder import SentenceEncoder
from opencse.evaluation import ScoredPairs, distinct, embed, spearman
from opencse.selection.finding import Floats

TOLERANCE = 1.0
"""Points of Spearman x 100 that may be lost for a gain elsewhere."""
_RESAMPLES = 2_000


@dataclass(frozen=True)
class Guarded:
    """What the guard found.

    Attributes:
        value: Spearman x 100 on its pairs.
        lost: the least that was lost, as far as so few pairs can tell: the lower end of the 95 % interval of the
            start's value minus this one (paired bootstrap over pairs); 0 where no more than the tolerance was lost.
    """

    value: float
    lost: float

    @property
    def forgets(self) -> bool:
        """Whether more was lost than is tolerated, beyond the noise of the pairs."""
        return self.lost > TOLERANCE


@dataclass(frozen=True)
class Guard:
    """Graded pairs that watch for forgetting.

    Attributes:
        name: what the user calls them.
        pairs: sentences and gold scores.
    """

    name: str
    pairs: ScoredPairs

    def cosines(self, encoder: SentenceEncoder) -> Floats:
        """(n,) the encoder's similarities of the pairs."""
        embedded = embed(encoder.encode, distinct([self.pairs.first, self.pairs.second]))
        return embedded.cosines(self.pairs.first, self.pairs.second)

    def compare(self, before: Floats, after: Floats) -> Guarded:
        """An encoder's similarities beside the start's."""
        gold = self.pairs.scores
        value = 100 * spearman(after, gold)
        if 100 * spearman(before, gold) - value <= TOLERANCE:
            return Guarded(value, 0.0)
        found = paired_bootstrap(gold, before, after, resamples=_RESAMPLES)
        return Guarded(value, 0.0 if found.interval is None else found.interval[0])
