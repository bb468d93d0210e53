"""Selects the encoder to keep by its Spearman correlation on graded pairs of sentences.

The rule: the best trained step is kept, unless the start is better by more than chance. A step above the start is kept,
and so is one within the noise below it: a few general pairs cannot distinguish two models of nearly equal score, and
the purpose of the run is to change the model (`opencse.adapt`, which promises never to make a model worse, keeps none
that is not above the start). Where training uses another pooling than the model's own, the step is
compared with the start with both poolings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from opencse.adapting.selection import Choice, DevScore, History, OwnPoolingScore, start_kept
from opencse.adapting.trained_texts import TrainedTexts
from opencse.analysis.alignment import alignment, positive_sides, uniformity
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.evaluation import ScoredPairs, distinct, embed, spearman
from opencse.numerals import number_of
from opencse.statistics import paired_bootstrap

SPREAD = 1_000
"""Sentences that the uniformity is computed over; few, so that it takes no time."""
NOISE = 0.05
"""Below this p a step counts as worse than the start."""


@dataclass(frozen=True)
class GradedPairSelector:
    """Selects by Spearman x 100 of cosine and gold score.

    Attributes:
        name: of the pairs, for the user.
        pairs: sentences and gold scores.
        strict: refuse any step that is not above the start, within the noise too.

    Example:
        >>> import numpy as np
        >>> texts = ["A dog runs.", "It rains.", "A cat sleeps."]
        >>> others = ["A dog is running.", "The sun shines.", "Stocks fell."]
        >>> selector = GradedPairSelector("three", ScoredPairs("three", np.array([5.0, 3.0, 0.0]), texts, others))
        >>> round(selector.score(SentenceEncoder.load()).value, 1)
        100.0
    """

    name: str
    pairs: ScoredPairs
    strict: bool = False

    def forbidden_texts(self) -> list[str]:
        """All sentences."""
        return [*self.pairs.first, *self.pairs.second]

    def without(self, trained: TrainedTexts) -> tuple[GradedPairSelector, list[str]]:
        """Drops the pairs that are trained on as pairs; a sentence alone does not reveal the gold score.

        Raises:
            UserError: where fewer than two pairs are left.
        """
        pairs = self.pairs
        rows = enumerate(zip(pairs.first, pairs.second, strict=True))
        remaining = [row for row, two in rows if not trained.pair(*two)]
        dropped = len(pairs) - len(remaining)
        if not dropped:
            return self, []
        if len(remaining) < 2:
            raise UserError(
                f"{self.name}: {dropped:,} of {len(pairs):,} pairs are trained on too, so they cannot select; select "
                "by other pairs (--dev)"
            )
        selected = ScoredPairs(
            pairs.name,
            pairs.scores[remaining],
            [pairs.first[row] for row in remaining],
            [pairs.second[row] for row in remaining],
        )
        note = f"{dropped:,} of {len(pairs):,} graded pairs are also in the training text and are ignored"
        return replace(self, pairs=selected), [f"pairs      {note}"]

    def fingerprint(self) -> str:
        """A hash of the sentences and their gold scores, 64 hexadecimal digits."""
        return self.pairs.fingerprint()

    @property
    def measure(self) -> str:
        """The name of the score."""
        return "Spearman x 100"

    @property
    def size(self) -> str:
        """How many pairs there are."""
        return number_of(len(self.pairs), "pair")

    @property
    def left_out(self) -> None:
        """Nothing: the pairs are no part of the text."""
        return

    def begin(self, start: SentenceEncoder) -> DevScore:
        """Scores the start."""
        return self.score(start)

    def score(self, encoder: SentenceEncoder) -> DevScore:
        """Scores ``encoder``; each sentence is encoded once, in float32."""
        pairs = self.pairs
        embedded = embed(encoder.encode, distinct([pairs.first, pairs.second]))
        cosines = embedded.cosines(pairs.first, pairs.second)
        spearman_ = 100 * spearman(cosines, pairs.scores)
        if not embedded.vectors.any(axis=1).all():
            return DevScore(spearman_, cosines=cosines)  # a text without a token has no direction
        positives = positive_sides(embedded, pairs)
        return DevScore(
            spearman_,
            alignment=None if positives is None else alignment(*positives),
            uniformity=uniformity(embedded.vectors[:SPREAD]),
            cosines=cosines,
        )

    def worse(self, trained: DevScore, start: DevScore) -> bool:
        """Whether ``trained`` is below ``start`` by more than chance (paired bootstrap, two-sided p < .05).

        Without the cosines of both there is no test: then any lower score is worse.
        """
        if self.strict or trained.value >= start.value:
            return self.strict
        if trained.cosines is None or start.cosines is None:
            return True
        test = paired_bootstrap(self.pairs.scores, trained.cosines, start.cosines)
        return test.p is None or test.p < NOISE

    def choose(
        self, history: History, steps: int, own_pooling: OwnPoolingScore | None, is_worse: Callable[[], bool]
    ) -> Choice:
        """Applies the rule of this module; see `choose`."""
        return choose(history, steps, own_pooling, is_worse)


def choose(
    history: History,
    steps: int,
    own_pooling: OwnPoolingScore | None,
    is_worse: Callable[[], bool],
    *,
    data: str = "dev pairs",
) -> Choice:
    """Applies the rule of this module.

    Args:
        history: with a score of the start and of at least one trained step.
        steps: of the run.
        own_pooling: the score of the start with its own pooling, if training uses another one.
        is_worse: whether the best trained step is worse than the start with the better pooling, by more than chance;
            called only where its score is not above that one's.
        data: what the scores are computed on, for the verdict.

    Example:
        >>> history = History({0: DevScore(70.0), 50: DevScore(72.5), 100: DevScore(71.0)})
        >>> choose(history, 100, None, lambda: False).verdict
        'the best model is kept (start 70.00, best 72.50 at step 50, last 71.00)'
    """
    scores = history.scores
    start, best, last = scores[0], scores[history.best_step], scores[max(scores)]
    with_own = f", with its own pooling {own_pooling.pooling} {own_pooling.value:.2f}" if own_pooling else ""
    numbers = f"start {start:.2f}{with_own}, best {best:.2f} at step {history.best_step:,}, last {last:.2f}"
    own_is_better = own_pooling is not None and own_pooling.value > start
    before = max(start, own_pooling.value) if own_pooling else start
    trained = history.by_step[history.best_step]
    kept = "the best model" if trained.share else trained.named(history.best_step)
    if best > before:
        caution = ""
        if history.best_step == max(scores) and len(scores) > 2 and steps > 1:
            caution = "; the best is the last evaluation: longer training may help"
        return Choice("best", f"{kept} is kept ({numbers}{caution})")
    if not is_worse():
        compared = "the start with its own pooling" if own_is_better else "the start"
        return Choice("best", f"{kept} is kept: the {data} cannot distinguish it from {compared} ({numbers})")
    if own_is_better:
        effect = "training helped, but" if best > start else "training did not help, and"
        return Choice("given", f"{effect} the model with its own pooling is better: that is kept unchanged ({numbers})")
    untrained = start_kept("start", own_pooling)
    return Choice("start", f"training did not help on the {data}, so {untrained} ({numbers})")
