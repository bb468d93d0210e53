"""Which encoder of a run is kept.

The rule: the best trained step, unless the start is better beyond what other dev pairs could bring. A step above the
start is kept; so is one within the noise below it, because a few general pairs cannot tell two models of nearly equal
score apart, and the run was asked for to change the model. Where training reads the model by another pooling than its
own, the step is held against both readings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from opencse.adapting.selection import Choice, DevScore, History, OwnPoolingScore
from opencse.adapting.trained_texts import TrainedTexts
from opencse.analysis.alignment import alignment, positive_sides, uniformity
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.evaluation import ScoredPairs, distinct, embed, spearman
from opencse.statistics import paired_bootstrap

SPREAD = 1_000
"""Sentences whose pairs the uniformity is taken over, so that following it costs next to nothing."""
NOISE = 0.05
"""Below this p a step is worse than the start by more than the chance of the pairs."""


@dataclass(frozen=True)
class GradedPairSelector:
    """Graded pairs to select on.

    Attributes:
        name: what the user calls them.
        pairs: sentences and gold scores.
    """

    name: str
    pairs: ScoredPairs

    def asked(self) -> list[str]:
        """All sentences."""
        return [*self.pairs.first, *self.pairs.second]

    def without(self, trained: TrainedTexts) -> tuple[GradedPairSelector, list[str]]:
        """The same without the pairs that are trained on as pairs; a sentence alone tells nothing of its gold score.

        Raises:
            UserError: where fewer than two pairs are left.
        """
        pairs = self.pairs
        rows = enumerate(zip(pairs.first, pairs.second, strict=True))
        kept = [row for row, two in rows if not trained.pair(*two)]
        dropped = len(pairs) - len(kept)
        if not dropped:
            return self, []
        if len(kept) < 2:
            raise UserError(
                f"{self.name}: {dropped:,} of {len(pairs):,} pairs are trained on too, so they cannot choose; choose "
                "by other pairs (--dev)"
            )
        left = ScoredPairs(
            pairs.name, pairs.scores[kept], [pairs.first[row] for row in kept], [pairs.second[row] for row in kept]
        )
        told = f"{dropped:,} of {len(pairs):,} graded pairs are in the training text and do not count"
        return GradedPairSelector(self.name, left), [f"pairs      {told}"]

    def fingerprint(self) -> str:
        """A hash of the sentences and their gold scores, 64 hexadecimal digits."""
        return self.pairs.fingerprint()

    @property
    def measure(self) -> str:
        """What the value is."""
        return "Spearman x 100"

    @property
    def size(self) -> str:
        """How many pairs there are."""
        return f"{len(self.pairs):,} pairs"

    @property
    def left_out(self) -> None:
        """Nothing: the pairs are no part of the text."""
        return

    def begin(self, start: SentenceEncoder) -> DevScore:
        """Evaluates the start as training takes it up."""
        return self.score(start)

    def score(self, encoder: SentenceEncoder) -> DevScore:
        """Evaluates ``encoder``; the pairs are encoded once, in float32."""
        pairs = self.pairs
        embedded = embed(encoder.encode, distinct([pairs.first, pairs.second]))
        cosines = embedded.cosines(pairs.first, pairs.second)
        spearman_ = 100 * spearman(cosines, pairs.scores)
        if not embedded.vectors.any(axis=1).all():
            return DevScore(spearman_, cosines=cosines)  # a text without a token has no direction
        alike = positive_sides(embedded, pairs)
        return DevScore(
            spearman_,
            alignment=None if alike is None else alignment(*alike),
            uniformity=uniformity(embedded.vectors[:SPREAD]),
            cosines=cosines,
        )

    def worse(self, trained: DevScore, start: DevScore) -> bool:
        """Whether ``trained`` is below ``start`` beyond the chance of the pairs (paired bootstrap, two-sided p < .05).

        Without the cosines of both nothing tells noise from a loss: any lower score is worse then.
        """
        if trained.value >= start.value:
            return False
        if trained.cosines is None or start.cosines is None:
            return True
        found = paired_bootstrap(self.pairs.scores, trained.cosines, start.cosines)
        return found.p is None or found.p < NOISE

    def choose(self, history: History, steps: int, given: OwnPoolingScore | None, worse: Callable[[], bool]) -> Choice:
        """See `choose`."""
        return choose(history, steps, given, worse)


def choose(history: History, steps: int, given: OwnPoolingScore | None, worse: Callable[[], bool]) -> Choice:
    """Applies the rule of this module.

    Args:
        history: with a score of the start and at least one of a trained step.
        steps: of the run.
        given: the other reading of the start, if there is one.
        worse: whether the best trained step is worse, beyond chance, than the better reading of the start; asked only
            if its score is not above that one's.
    """
    scores = history.scores
    start, best, last = scores[0], scores[history.best_step], scores[max(scores)]
    own = f", with its own pooling {given.pooling} {given.value:.2f}" if given else ""
    numbers = f"start {start:.2f}{own}, best {best:.2f} at step {history.best_step:,}, last {last:.2f}"
    other = given is not None and given.value > start
    guard = max(start, given.value) if given else start
    if best > guard:
        caution = ""
        if history.best_step == max(scores) and steps > 1:
            caution = "; the best is the last evaluation: longer training may help"
        return Choice("best", f"the best model is kept ({numbers}{caution})")
    if not worse():
        compared = "the start with its own pooling" if other else "the start"
        return Choice(
            "best", f"the best trained model is kept: the dev pairs cannot tell it from {compared} ({numbers})"
        )
    if other:
        gained = "training helped, but" if best > start else "training did not help, and"
        return Choice("given", f"{gained} the model with its own pooling is better: that is kept unchanged ({numbers})")
    return Choice("start", f"training did not help on the dev pairs, so the start is kept unchanged ({numbers})")
