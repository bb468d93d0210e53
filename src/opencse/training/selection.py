"""Which encoder of a run is kept: the best on the dev pairs, the start counted among them."""

from __future__ import annotations

from dataclasses import dataclass, field

from opencse.encoder.encoder import SentenceEncoder
from opencse.evaluation import ScoredPairs, evaluate_pairs


@dataclass(frozen=True)
class Dev:
    """Graded pairs to select on.

    Attributes:
        name: what a person calls them.
        pairs: sentences and gold scores.
    """

    name: str
    pairs: ScoredPairs

    def score(self, encoder: SentenceEncoder) -> float:
        """Spearman's correlation x 100 of cosine and gold score, computed in float32."""
        return evaluate_pairs(encoder.encode, self.pairs).spearman


@dataclass
class History:
    """The dev scores of a run, by step; step 0 is the model as it was given."""

    scores: dict[int, float] = field(default_factory=dict)

    @property
    def best_step(self) -> int:
        """The earliest step with the highest score; a later one must be strictly better."""
        return max(self.scores, key=lambda step: (self.scores[step], -step))

    def add(self, step: int, score: float) -> bool:
        """Notes a score; whether it is the best so far."""
        self.scores[step] = score
        return self.best_step == step

    def verdict(self, steps: int) -> str:
        """The outcome in one plain sentence."""
        start, best, last = self.scores[0], self.scores[self.best_step], self.scores[max(self.scores)]
        numbers = f"start {start:.2f}, best {best:.2f} at step {self.best_step:,}, last {last:.2f}"
        if self.best_step == 0:
            return f"training did not help on the dev pairs, so the start is kept unchanged ({numbers})"
        caution = ""
        if self.best_step == max(self.scores) and steps > 1:
            caution = "; the best is the last evaluation: longer training may help"
        return f"the best model is kept ({numbers}{caution})"
