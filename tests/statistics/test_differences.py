"""Differences of systems and their verdicts: bootstrap, seeds, means, Williams, variances, against loops and scipy."""

from __future__ import annotations

import itertools
import math
from statistics import stdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from opencse.arrays import Floats
from opencse.errors import UserError
from opencse.evaluation import spearman
from opencse.statistics import (
    AfterHolm,
    Difference,
    after_holm,
    brief,
    holm,
    paired_bootstrap,
    paired_bootstrap_tasks,
    paired_queries,
    paired_seeds,
    summary,
    verdict,
)
from opencse.statistics.difference import quantile, two_sided_p
from opencse.statistics.queries import grouped_difference, intervals_of_means
from opencse.statistics.seeds import two_way

Triple = tuple[Floats, Floats, Floats]


def judged(n: int, seed: int, *, ties: bool) -> Triple:
    """Gold in steps of a fifth, as STS has it, a nearer system, and one further off."""
    rng = np.random.default_rng(seed)
    gold = np.round(rng.uniform(0, 5, n) * 5) / 5
    a, b = gold + rng.normal(size=n), gold + 2 * rng.normal(size=n)
    return (gold, np.round(a), np.round(b)) if ties else (gold, a, b)


def naive_spearman(x: Floats, y: Floats) -> float:
    return float(stats.spearmanr(x, y).statistic)


def test_the_whole_bootstrap_equals_naive_loops() -> None:
    gold, a, b = judged(40, 3, ties=True)
    found = paired_bootstrap(gold, a, b, resamples=99, seed=5)
    rng = np.random.default_rng(5)
    differences = []
    for _ in range(99):
        drawn = [int(i) for i in rng.integers(0, 40, 40)]
        differences.append(100 * (naive_spearman(a[drawn], gold[drawn]) - naive_spearman(b[drawn], gold[drawn])))
    observed = 100 * (spearman(a, gold) - spearman(b, gold))
    assert found.difference == pytest.approx(observed, abs=1e-10)
    hits = sum(abs(d - observed) >= abs(observed) for d in differences)
    assert found.p == (1 + hits) / 100
    ordered = sorted(differences)
    lower = ordered[2] + 0.45 * (ordered[3] - ordered[2])  # place .025 * 98 = 2.45
    upper = ordered[95] + 0.55 * (ordered[96] - ordered[95])
    assert found.interval == pytest.approx((lower, upper), abs=1e-10)
    assert len({round(d, 6) for d in differences}) > 90


def tasks() -> dict[str, Triple]:
    return {"sts12": judged(60, 7, ties=False), "sickr": judged(25, 8, ties=True), "stsb": judged(40, 9, ties=False)}


@pytest.mark.slow
def test_tasks_are_averaged_and_resampled_within_themselves() -> None:
    data = tasks()
    gold, a, b = ({task: sides[i] for task, sides in data.items()} for i in range(3))
    found = paired_bootstrap_tasks(gold, a, b, resamples=80, seed=3)
    sources = np.random.SeedSequence(3).spawn(3)
    each = []
    for (task, (g, x, y)), source in zip(data.items(), sources, strict=True):
        rng = np.random.default_rng(source)
        draws = [rng.integers(0, len(g), len(g)) for _ in range(80)]
        each.append([100 * (spearman(x[d], g[d]) - spearman(y[d], g[d])) for d in draws])
        alone = found.tasks[task]
        assert alone.difference == pytest.approx(100 * (spearman(x, g) - spearman(y, g)), abs=1e-10)
        assert alone.interval == pytest.approx(tuple(np.quantile(each[-1], [0.025, 0.975])), abs=1e-10)
        assert alone.n == len(g)
    averages = [sum(column) / 3 for column in zip(*each, strict=True)]
    observed = sum(part.difference for part in found.tasks.values()) / 3
    assert found.difference == pytest.approx(observed, abs=1e-10)
    assert found.interval == pytest.approx(tuple(np.quantile(averages, [0.025, 0.975])), abs=1e-10)
    assert found.p == (1 + sum(abs(d - observed) >= abs(observed) for d in averages)) / 81
    assert (found.n, found.over()) == (125, "125 pairs of 3 tasks")
    assert found.interval is not None
    assert all(found.interval != part.interval for part in found.tasks.values())


class Plain(Difference):
    def over(self) -> str:
        return "something"


def plain(p: float | None, difference: float = 1.0) -> Plain:
    return Plain(difference=difference, interval=None, p=p)


def test_holm_by_hand() -> None:
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}) == pytest.approx(
        {"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02}
    )
    assert holm({"a": None, "b": 0.02, "c": None, "d": 0.04}) == pytest.approx({"b": 0.04, "d": 0.04})


def test_after_holm_keeps_the_comparisons_and_adds_the_adjusted_p() -> None:
    family = {"one": plain(0.01), "none": plain(None), "two": plain(0.04)}
    found = after_holm(family)
    assert list(found) == ["one", "none", "two"]
    assert found["none"] == family["none"]
    assert found["one"].holm == AfterHolm(p=0.02, comparisons=2)
    assert found["two"].holm == AfterHolm(p=0.04, comparisons=2)
    assert family["one"].holm is None


def test_verdict_of_a_system_that_is_better() -> None:
    scores = {1: 76.2, 2: 76.9, 3: 77.4, 4: 75.9, 5: 76.4}
    base = {1: 74.8, 2: 75.3, 3: 75.2, 4: 75.1, 5: 75.0}
    better, worse = paired_seeds(scores, base), paired_seeds(base, scores)
    assert verdict(better) == "+1.48 (95% interval +0.86 to +2.10) over 5 paired seeds; p = .003: better"
    assert verdict(worse) == "-1.48 (95% interval -2.10 to -0.86) over 5 paired seeds; p = .003: worse"
    family = after_holm({"x": better, **{str(i): plain(0.5) for i in range(30)}})
    assert verdict(family["x"]).endswith("p = .085 after Holm over 31 comparisons: no difference shown")


def test_two_seeds_give_no_verdict_however_small_their_p() -> None:
    two = paired_seeds({1: 76.0, 2: 75.1}, {1: 75.0, 2: 74.0})
    assert two.p is not None
    assert two.p < 0.05
    assert two.direction() is None
    told = "+1.05 (95% interval +0.41 to +1.69) over 2 paired seeds: too few seeds to tell, at least 3 are needed"
    assert verdict(two) == told
    assert brief(two) == "+1.05 ± 0.64"
    three = paired_seeds({1: 76.0, 2: 75.1, 3: 70.9}, {1: 75.0, 2: 74.0, 3: 69.9})
    family = after_holm({"two": two, "three": three})
    assert verdict(family["two"]) == told
    assert family["two"].holm is None
    assert family["three"].holm == AfterHolm(p=three.p or 0.0, comparisons=1), (
        "what decides nothing is not adjusted for"
    )
    assert family["three"].direction() == "better"


def test_verdict_where_nothing_can_be_told() -> None:
    three = paired_seeds({1: 76.0, 2: 75.0, 3: 74.0}, {1: 74.0, 2: 75.5, 3: 74.9})
    assert verdict(three) == (
        "+0.20 (95% interval -3.70 to +4.10) over 3 paired seeds; p = .846: too few to tell at this spread"
    )
    few = "too few seeds to tell, at least 3 are needed"
    assert verdict(paired_seeds({1: 76.0}, {1: 75.0})) == f"+1.00 over 1 paired seed: {few}"
    same = paired_seeds({1: 76.0, 2: 75.0, 3: 77.0}, {1: 75.0, 2: 74.0, 3: 76.0})
    assert verdict(same) == ("+1.00 over 3 paired seeds: the same at every seed, so there is no spread to test against")
    zero = paired_seeds({1: 76.0, 2: 75.0, 3: 74.0}, {1: 76.0, 2: 75.0, 3: 74.0})
    assert verdict(zero) == "+0.00 over 3 paired seeds: no difference shown"


SYSTEM = {1: 76.2, 2: 75.1, 3: 77.4, 4: 76.0, 5: 75.9}
BASELINE = {1: 74.8, 2: 75.3, 3: 75.2, 4: 74.1, 5: 75.0}


def naive_sign_flip(differences: list[float]) -> float:
    observed = abs(sum(differences))
    flips = list(itertools.product([-1, 1], repeat=len(differences)))
    hits = sum(abs(sum(e * d for e, d in zip(f, differences, strict=True))) >= observed - 1e-9 for f in flips)
    return hits / len(flips)


def test_summary_of_one_value_has_no_spread_and_of_equal_values_no_interval() -> None:
    assert summary([74.8]).model_dump() == {"mean": 74.8, "sd": None, "n": 1, "interval": None}
    assert summary([74.8, 74.8, 74.8]).model_dump() == {"mean": 74.8, "sd": 0.0, "n": 3, "interval": None}
    assert summary([74.8, 74.8, 74.81]).interval is not None


def test_paired_seeds_equal_the_formulas_and_scipy() -> None:
    found = paired_seeds(SYSTEM, BASELINE)
    differences = [SYSTEM[seed] - BASELINE[seed] for seed in SYSTEM]
    mean, sd = sum(differences) / 5, stdev(differences)
    assert found.difference == pytest.approx(mean, abs=1e-12)
    assert found.sd == pytest.approx(sd, abs=1e-12)
    expected = stats.ttest_rel(list(SYSTEM.values()), list(BASELINE.values()))
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert found.p is not None
    assert 0.001 < found.p < 0.1
    assert found.interval == pytest.approx(
        (mean - 2.776445105 * sd / math.sqrt(5), mean + 2.776445105 * sd / math.sqrt(5)), abs=1e-8
    )
    assert found.sign_flip_p == 4 / 32
    assert (found.seeds, found.left_out, found.over()) == ((1, 2, 3, 4, 5), (), "5 paired seeds")


def test_only_common_seeds_are_used_and_the_others_named() -> None:
    found = paired_seeds({**SYSTEM, 9: 10.0}, {**BASELINE, 7: 99.0, 8: 98.0})
    plain = paired_seeds(SYSTEM, dict(reversed(BASELINE.items())))
    assert found.left_out == (7, 8, 9)
    assert found.model_copy(update={"left_out": ()}) == plain


@pytest.mark.parametrize("shift", [0.0, -1.1])
def test_differences_that_do_not_vary_have_no_t_test(shift: float) -> None:
    # 75.3 - 75.0 and the like differ in their last bits; that is rounding, not spread.
    baseline = {1: 74.1, 2: 75.7, 3: 78.3, 4: 71.9}
    found = paired_seeds({seed: score + shift for seed, score in baseline.items()}, baseline)
    assert found.difference == pytest.approx(shift, abs=1e-9)
    assert (found.sd, found.interval, found.p) == (0.0, None, None)
    assert found.sign_flip_p == (1.0 if shift == 0 else 2 / 16)


@given(st.lists(st.integers(-5, 5), min_size=2, max_size=9))
def test_sign_flips_equal_the_listing_of_all_flips(differences: list[int]) -> None:
    # Tenths are not exact in binary: sums that are equal on paper must count as equal.
    baseline = {seed: 70.0 + 3.7 * seed for seed in range(len(differences))}
    found = paired_seeds({seed: baseline[seed] + d / 10 for seed, d in enumerate(differences)}, baseline)
    assert found.sign_flip_p == naive_sign_flip([float(d) for d in differences])


def test_twenty_seeds_are_flipped_and_twenty_one_are_not() -> None:
    twenty = {seed: 1.0 + seed % 2 for seed in range(20)}
    zeros = dict.fromkeys(range(21), 0.0)
    assert paired_seeds(twenty, zeros).sign_flip_p == 2**-19
    beyond = paired_seeds({**twenty, 20: 1.0}, zeros)
    assert beyond.sign_flip_p is None
    assert beyond.p is not None


def test_without_a_common_seed_there_is_no_difference() -> None:
    with pytest.raises(UserError, match=r"no seed in common \(system: 1, 2; baseline: 3\); run both at the same seeds"):
        paired_seeds({2: 1.0, 1: 2.0}, {3: 1.0})


def test_intervals_and_tests_are_those_of_scipy() -> None:
    random = np.random.default_rng(0)
    for n in (2, 18, 300):
        a, b = random.normal(50, 10, size=n), random.normal(52, 10, size=n)
        difference, wanted = paired_queries(a, b), stats.ttest_rel(a, b)
        assert difference.p == pytest.approx(wanted.pvalue)
        assert difference.interval == pytest.approx(tuple(wanted.confidence_interval(0.95)))
        single = intervals_of_means({"a": a})["a"]
        assert single is not None
        low, high = stats.ttest_1samp(a, 0).confidence_interval(0.95)
        assert single == pytest.approx((max(0, low), min(100, high)))


def test_the_components_are_those_of_naive_loops() -> None:
    table = np.random.default_rng(0).normal(70, 2, size=(3, 4))
    layout = two_way({(10 + i, 20 + j): table[i, j] for i in range(3) for j in range(4)})
    rows = [sum(table[i, j] for j in range(4)) / 4 for i in range(3)]
    columns = [sum(table[i, j] for i in range(3)) / 3 for j in range(4)]
    mean = sum(rows) / 3
    of_rows = 4 * sum((row - mean) ** 2 for row in rows) / 2
    of_columns = 3 * sum((column - mean) ** 2 for column in columns) / 3
    rest = sum((table[i, j] - rows[i] - columns[j] + mean) ** 2 for i in range(3) for j in range(4)) / 6
    assert (layout.data_seeds, layout.dropout_seeds) == ((10, 11, 12), (20, 21, 22, 23))
    assert layout.scores == table.tolist()
    assert layout.mean == pytest.approx(mean, abs=1e-10)
    assert layout.sd_over_data == pytest.approx(np.sqrt(of_rows / 4), abs=1e-10)
    assert layout.sd_over_dropout == pytest.approx(np.sqrt(of_columns / 3), abs=1e-10)
    assert layout.variance_of_data == pytest.approx(max(0, (of_rows - rest) / 4), abs=1e-10)
    assert layout.variance_of_dropout == pytest.approx(max(0, (of_columns - rest) / 3), abs=1e-10)
    assert layout.variance_of_rest == pytest.approx(rest, abs=1e-10)


def test_one_row_has_a_spread_of_columns_alone() -> None:
    layout = two_way({(1, 1): 70.0, (1, 2): 72.0})
    assert (layout.mean, layout.sd_over_data, layout.variance_of_data) == (71.0, None, None)
    assert layout.sd_over_dropout == pytest.approx(2**0.5)
    two_by_two = two_way({(i, j): float(i * j) for i in (1, 2) for j in (1, 2)})
    assert two_by_two.variance_of_rest == pytest.approx(0.25)


def test_the_error_of_independent_questions_is_the_usual_one() -> None:
    random = np.random.default_rng(1)
    before, after = random.uniform(size=50), random.uniform(size=50)
    difference = grouped_difference(before, after, np.arange(50))
    differences = after - before
    assert difference.value == pytest.approx(differences.mean())
    assert difference.error == pytest.approx(differences.std(ddof=1) / math.sqrt(50))
    low, high = difference.interval
    assert (low + high) / 2 == pytest.approx(difference.value)


def test_copies_of_a_question_are_no_new_evidence() -> None:
    random = np.random.default_rng(2)
    before, after = random.uniform(size=30), random.uniform(size=30)
    once = grouped_difference(before, after, np.arange(30))
    thrice = grouped_difference(np.repeat(before, 3), np.repeat(after, 3), np.repeat(np.arange(30), 3))
    assert thrice.error == pytest.approx(once.error)
    assert grouped_difference(before, after, np.zeros(30, dtype=np.int64)).error == math.inf


def test_the_distance_between_kinds_is_no_error() -> None:
    random = np.random.default_rng(3)
    kinds, groups = np.repeat([0, 1], [20, 60]), np.arange(80)
    after = random.uniform(size=80) + 100 * kinds
    difference = grouped_difference(np.zeros(80), after, groups, kinds)
    assert difference.value == pytest.approx(after.mean())
    variances = [20 * after[:20].var(), 60 * after[20:].var()]
    assert difference.error == pytest.approx(math.sqrt(80 / 79 * sum(variances)) / 80)
    assert difference.error < 0.1 < grouped_difference(np.zeros(80), after, groups).error


@pytest.mark.parametrize("df", [1, 2, 5, 18, 99, 50_000])
def test_it_is_the_distribution_of_scipy(df: int) -> None:
    for t in (0.0, 1e-6, 0.3, 1.96, -2.5, 6.0, 40.0):
        assert two_sided_p(t, df) == pytest.approx(2 * stats.t.sf(abs(t), df), abs=1e-10)
    for level in (0.05, 0.01, 0.5):
        assert quantile(df, level) == pytest.approx(stats.t.ppf(1 - level / 2, df), rel=1e-9)


DRAWS = 1000


@pytest.mark.parametrize("n", [2, 20])
def test_few_queries_claim_little_that_is_noise(n: int) -> None:
    """nDCG of two systems: many queries are equal, the others differ by chance."""
    rng = np.random.default_rng(n)
    claims = 0
    for _ in range(DRAWS):
        differences = np.where(rng.random(n) < 0.35, 0, rng.normal(0, 25, n))
        claims += paired_queries(differences, np.zeros(n)).direction() is not None
    assert claims <= 0.09 * DRAWS


def test_a_single_query_has_no_interval_and_few_decide_nothing() -> None:
    assert intervals_of_means({"ndcg": np.array([50.0])}) == {"ndcg": None}
    one = paired_queries(np.array([50.0]), np.array([20.0]))
    assert (one.difference, one.interval, one.p) == (30, None, None)
    few, enough = (paired_queries(np.linspace(60, 70, n), np.full(n, 50.0)) for n in (19, 20))
    assert (few.direction(), enough.direction()) == (None, "better")
    assert verdict(few).endswith("over 19 queries: too few queries to tell, at least 20 are needed")
