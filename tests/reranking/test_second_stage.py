"""Re-ranking against a plain loop, with ties and short lists."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from opencse.progress import Count
from opencse.reranking.second_stage import SecondStage


class Counted:
    """Scores a pair by the letters that its texts share, and keeps the pairs."""

    name = "letters"

    def __init__(self) -> None:
        self.pairs: list[tuple[str, str]] = []

    def scores(
        self, pairs: Sequence[tuple[str, str]], *, logits: bool = False, progress: Count | None = None
    ) -> NDArray[np.float32]:
        self.pairs += pairs
        return np.array([len(set(one) & set(two)) for one, two in pairs], dtype=np.float32)


def test_reranking_matches_a_plain_loop() -> None:
    generator = np.random.default_rng(0)
    letters = list("abcdefgh")
    queries = ["".join(generator.choice(letters, 4)) for _ in range(9)]
    rankings = [["".join(generator.choice(letters, 5)) for _ in range(size)] for size in (0, 1, 3, 6, 7, 8, 20, 20, 6)]
    scorer = Counted()
    result = SecondStage(scorer, depth=6).reranked(queries, rankings)
    ties = 0
    for query, texts, ranked in zip(queries, rankings, result, strict=True):
        scores = [float(len(set(query) & set(text))) for text in texts[:6]]
        expected = sorted(range(len(scores)), key=lambda position: (-scores[position], position))
        assert ranked == [(position, scores[position]) for position in expected]
        ties += len(scores) - len(set(scores))
    assert ties > 5
    assert len(scorer.pairs) == sum(min(len(texts), 6) for texts in rankings)
    assert SecondStage(scorer, depth=1).reranked([], []) == []
