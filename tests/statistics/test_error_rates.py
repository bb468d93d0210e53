"""Simulated: under the null a test rejects in 5% of draws, and an interval holds the truth in 95%."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
from scipy import stats

from opencse.arrays import Floats
from opencse.statistics import (
    Difference,
    PairedSeeds,
    paired_bootstrap,
    paired_bootstrap_tasks,
    paired_queries,
    paired_seeds,
    summary,
    williams,
)

pytestmark = pytest.mark.slow

DRAWS = 1000
RESAMPLES = 119  # p is then a multiple of 1/120, and .05 one of them


def expect_rate(hits: int, rate: float, draws: int = DRAWS) -> None:
    """``hits`` of ``draws`` lies in the central 99.9% of the binomial with that rate."""
    low, high = stats.binom.interval(0.999, draws, rate)
    assert low <= hits <= high, f"{hits} of {draws}, expected {low:.0f} to {high:.0f}"


def rejected(found: Difference) -> bool:
    assert found.p is not None
    return found.p <= 0.05


def holds(found: Difference, truth: float) -> bool:
    assert found.interval is not None
    return found.interval[0] <= truth <= found.interval[1]


def seeds_drawn(n: int, effect: float, seed: int) -> Iterator[PairedSeeds]:
    """Both systems move with the seed (sd 2), and each by itself (sd 1 over root 2, so differences have sd 1)."""
    rng = np.random.default_rng(seed)
    for _ in range(DRAWS):
        common = rng.normal(75, 2, n)
        ours, theirs = common + effect + rng.normal(0, 0.5**0.5, n), common + rng.normal(0, 0.5**0.5, n)
        yield paired_seeds(dict(enumerate(ours.tolist())), dict(enumerate(theirs.tolist())))


def judged(rng: np.random.Generator, n: int, noise_a: float, noise_b: float) -> tuple[Floats, Floats, Floats]:
    gold = rng.normal(size=n)
    shared = rng.normal(size=n)
    return gold, gold + shared + noise_a * rng.normal(size=n), gold + shared + noise_b * rng.normal(size=n)


@pytest.mark.parametrize("n", [3, 5])
def test_paired_t_rejects_at_its_level_and_its_interval_covers(n: int) -> None:
    drawn = list(seeds_drawn(n, 0.0, seed=n))
    expect_rate(sum(map(rejected, drawn)), 0.05)
    shifted = list(seeds_drawn(n, 1.3, seed=n + 1))
    expect_rate(sum(holds(one, 1.3) for one in shifted), 0.95)
    power = 1 - float(stats.nct.cdf(stats.t.ppf(0.975, n - 1), n - 1, 1.3 * math.sqrt(n)))
    assert power > 0.15
    expect_rate(sum(rejected(one) and one.difference > 0 for one in shifted), power)


def test_sign_flips_reject_at_the_rate_that_their_steps_allow() -> None:
    # 8 seeds: p is a multiple of 2/256, so p <= .05 in 12/256 of draws.
    drawn = list(seeds_drawn(8, 0.0, seed=1))
    expect_rate(sum(one.sign_flip_p is not None and one.sign_flip_p <= 0.05 for one in drawn), 12 / 256)
    shifted = list(seeds_drawn(8, 1.5, seed=2))
    assert sum(one.sign_flip_p is not None and one.sign_flip_p <= 0.05 for one in shifted) > 0.9 * DRAWS
    assert sum(map(rejected, shifted)) > 0.9 * DRAWS


def test_interval_of_a_summary_covers_the_mean() -> None:
    rng = np.random.default_rng(4)
    found = [summary(rng.normal(75, 1, 5).tolist()).interval for _ in range(DRAWS)]
    expect_rate(sum(one is not None and one[0] <= 75 <= one[1] for one in found), 0.95)


def test_bootstrap_rejects_at_its_level_and_its_interval_covers() -> None:
    rng = np.random.default_rng(5)
    drawn = [paired_bootstrap(*judged(rng, 100, 1.0, 1.0), resamples=RESAMPLES, seed=i) for i in range(DRAWS)]
    expect_rate(sum(map(rejected, drawn)), 0.05)
    expect_rate(sum(holds(one, 0.0) for one in drawn), 0.95)


def test_bootstrap_interval_covers_a_difference_and_its_test_sees_it() -> None:
    # Spearman of normals is 6/pi asin(r/2); r with gold is 1/sqrt(1 + 1 + noise^2).
    truth = 100 * 6 / math.pi * (math.asin(1 / math.sqrt(2.25) / 2) - math.asin(1 / math.sqrt(4.25) / 2))
    assert truth > 15
    rng = np.random.default_rng(6)
    drawn = [paired_bootstrap(*judged(rng, 100, 0.5, 1.5), resamples=RESAMPLES, seed=i) for i in range(500)]
    expect_rate(sum(holds(one, truth) for one in drawn), 0.95, draws=500)
    assert sum(rejected(one) and one.difference > 0 for one in drawn) > 0.55 * 500


def test_bootstrap_of_tasks_rejects_at_its_level() -> None:
    rng = np.random.default_rng(7)
    drawn = []
    for i in range(400):
        sides = [judged(rng, n, 1.0, 1.0) for n in (40, 60, 80)]
        gold, a, b = ({str(t): side[k] for t, side in enumerate(sides)} for k in range(3))
        drawn.append(paired_bootstrap_tasks(gold, a, b, resamples=RESAMPLES, seed=i))
    expect_rate(sum(map(rejected, drawn)), 0.05, draws=400)


@pytest.mark.parametrize(("n", "noise"), [(20, 0.5), (60, 1.0)])
def test_dependent_correlations_reject_at_their_level(n: int, noise: float) -> None:
    rng = np.random.default_rng(n)
    r = [np.asarray(np.corrcoef(judged(rng, n, noise, noise))) for _ in range(DRAWS)]
    expect_rate(sum(rejected(williams(one[0, 1], one[0, 2], one[1, 2], n)) for one in r), 0.05)
    r = [np.asarray(np.corrcoef(judged(rng, 100, 0.3, 1.5))) for _ in range(200)]
    assert sum(rejected(williams(one[0, 1], one[0, 2], one[1, 2], 100)) for one in r) > 150


@pytest.mark.parametrize("n", [2, 5, 10, 20, 40])
def test_few_queries_claim_little_that_is_noise(n: int) -> None:
    """nDCG of two systems: many queries are equal, the others differ by chance."""
    rng = np.random.default_rng(n)
    claims = 0
    for _ in range(DRAWS):
        differences = np.where(rng.random(n) < 0.35, 0, rng.normal(0, 25, n))
        claims += paired_queries(differences, np.zeros(n)).direction() is not None
    assert claims <= 0.09 * DRAWS
