"""Bias by length and overlap against a regression of ranks, and on models whose bias is known."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import rankdata

from opencse.analysis.bias import pair_bias
from opencse.evaluation import ScoredPairs

Floats = NDArray[np.float64]


def some(n: int = 200, seed: int = 0) -> ScoredPairs:
    """Pairs of random words, of lengths 1 to 14, with gold scores in steps of a fifth that no words explain."""
    rng = np.random.default_rng(seed)
    sides = [[" ".join(f"w{k}" for k in rng.integers(0, 12, rng.integers(1, 15))) for _ in range(n)] for _ in "xy"]
    return ScoredPairs("some", np.round(rng.uniform(0, 5, n) * 5) / 5, *sides)


def differences(pairs: ScoredPairs) -> Floats:
    return np.array(
        [abs(len(a.split()) - len(b.split())) for a, b in zip(pairs.first, pairs.second, strict=True)], float
    )


def overlaps(pairs: ScoredPairs) -> Floats:
    values = []
    for a, b in zip(pairs.first, pairs.second, strict=True):
        rest, shared = b.lower().split(), 0
        for word in a.lower().split():
            if word in rest:
                rest.remove(word)
                shared += 1
        values.append(2 * shared / (len(a.split()) + len(b.split())))
    return np.array(values)


def residuals(values: Floats, on: Floats) -> Floats:
    """Ranks of one less their regression on the ranks of the other: the definition of partial correlation."""
    ranks, other = rankdata(values), rankdata(on)
    design = np.stack([np.ones_like(other), other], axis=1)
    return np.asarray(ranks - design @ np.linalg.lstsq(design, ranks, rcond=None)[0])


def test_correlations_are_those_of_rank_regressions() -> None:
    pairs = some()
    traits = differences(pairs), overlaps(pairs)
    cosines = np.tanh(pairs.scores - 0.2 * traits[0] + traits[1] + np.random.default_rng(1).normal(size=200))
    found = pair_bias(cosines, pairs)
    for measured, trait in zip((found.length_difference, found.word_overlap), traits, strict=True):
        partial = np.corrcoef(residuals(cosines, pairs.scores), residuals(trait, pairs.scores))[0, 1]
        assert measured.partial == pytest.approx(partial, abs=1e-12)
        assert abs(partial) > 0.1
    assert found.n == 200


def test_bins_hold_the_means_of_their_pairs() -> None:
    pairs = some()
    cosines = np.random.default_rng(2).uniform(-1, 1, 200)
    found = pair_bias(cosines, pairs)
    for measured, trait, edges in (
        (found.length_difference, differences(pairs), [0, 1, 2, 3, 4, 6, 10]),
        (found.word_overlap, overlaps(pairs), [0, 0.2, 0.4, 0.6, 0.8]),
    ):
        assert [bin_.lower for bin_ in measured.bins] == edges
        assert [bin_.upper for bin_ in measured.bins] == [*edges[1:], None]
        assert sum(bin_.n for bin_ in measured.bins) == 200
        for bin_ in measured.bins:
            inside = [i for i in range(200) if bin_.lower <= trait[i] < (bin_.upper or 99)]
            assert bin_.n == len(inside)
            if inside:
                assert bin_.mean_cosine == pytest.approx(np.mean(cosines[inside]))
        assert sum(bin_.n > 5 for bin_ in measured.bins) >= 3
