import itertools
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from opencse.errors import UserError
from opencse.statistics import paired_seeds, summary

SYSTEM = {1: 76.2, 2: 75.1, 3: 77.4, 4: 76.0, 5: 75.9}
BASELINE = {1: 74.8, 2: 75.3, 3: 75.2, 4: 74.1, 5: 75.0}
SCORES = st.floats(0, 100) | st.floats(-1e150, 1e150)


def naive_sign_flip(differences: list[float]) -> float:
    observed = abs(sum(differences))
    flips = list(itertools.product([-1, 1], repeat=len(differences)))
    hits = sum(abs(sum(e * d for e, d in zip(f, differences, strict=True))) >= observed - 1e-9 for f in flips)
    return hits / len(flips)


def naive_sd(values: list[float]) -> float:
    mean = sum(values) / len(values)
    return math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))


def test_summary_of_a_worked_example() -> None:
    found = summary([2.0, 4.0, 4.0, 6.0])
    assert (found.mean, found.n) == (4.0, 4)
    assert found.sd == pytest.approx(math.sqrt(8 / 3), abs=1e-12)
    assert found.interval == pytest.approx((4 - 3.182446 * math.sqrt(8 / 3) / 2, 4 + 3.182446 * math.sqrt(8 / 3) / 2))


def test_summary_of_one_value_has_no_spread_and_of_equal_values_no_interval() -> None:
    assert summary([74.8]).model_dump() == {"mean": 74.8, "sd": None, "n": 1, "interval": None}
    assert summary([74.8, 74.8, 74.8]).model_dump() == {"mean": 74.8, "sd": 0.0, "n": 3, "interval": None}
    assert summary([74.8, 74.8, 74.81]).interval is not None


def test_paired_seeds_equal_the_formulas_and_scipy() -> None:
    found = paired_seeds(SYSTEM, BASELINE)
    differences = [SYSTEM[seed] - BASELINE[seed] for seed in SYSTEM]
    mean, sd = sum(differences) / 5, naive_sd(differences)
    assert found.difference == pytest.approx(mean, abs=1e-12)
    assert found.sd == pytest.approx(sd, abs=1e-12)
    expected = stats.ttest_rel(list(SYSTEM.values()), list(BASELINE.values()))
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert found.p is not None
    assert 0.001 < found.p < 0.1
    assert found.interval == pytest.approx(
        (mean - 2.776445105 * sd / math.sqrt(5), mean + 2.776445105 * sd / math.sqrt(5)), abs=1e-8
    )
    assert found.sign_flip_p == 4 / 32 == naive_sign_flip(differences)
    assert (found.seeds, found.left_out, found.over()) == ((1, 2, 3, 4, 5), (), "5 paired seeds")


def test_student_s_sleep_data() -> None:
    # Student (1908), ten patients, hours of sleep gained by two drugs: t = 4.0621, p = 0.002833.
    first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    found = paired_seeds(dict(enumerate(second)), dict(enumerate(first)))
    assert found.difference == pytest.approx(1.58)
    assert found.p == pytest.approx(0.002833, abs=1e-6)
    assert found.interval == pytest.approx((0.7001142, 2.4598858), abs=1e-6)


def test_only_common_seeds_are_used_and_the_others_named() -> None:
    found = paired_seeds({**SYSTEM, 9: 10.0}, {**BASELINE, 7: 99.0, 8: 98.0})
    plain = paired_seeds(SYSTEM, dict(reversed(BASELINE.items())))
    assert found.left_out == (7, 8, 9)
    assert found.model_copy(update={"left_out": ()}) == plain


def test_one_seed_has_neither_interval_nor_p() -> None:
    found = paired_seeds({1: 76.0}, {1: 75.0})
    assert (found.difference, found.sd, found.interval, found.p, found.sign_flip_p) == (1.0, None, None, None, None)
    assert found.over() == "1 paired seed"


@pytest.mark.parametrize("shift", [0.0, 0.3, -1.1])
def test_differences_that_do_not_vary_have_no_t_test(shift: float) -> None:
    # 75.3 - 75.0 and the like differ in their last bits; that is rounding, not spread.
    baseline = {1: 74.1, 2: 75.7, 3: 78.3, 4: 71.9}
    found = paired_seeds({seed: score + shift for seed, score in baseline.items()}, baseline)
    assert found.difference == pytest.approx(shift, abs=1e-9)
    assert (found.sd, found.interval, found.p) == (0.0, None, None)
    assert found.sign_flip_p == (1.0 if shift == 0 else 2 / 16)


@pytest.mark.parametrize("unit", [5e-324, 2.2e-311, 1e-300, 1e-160])
def test_differences_too_small_to_be_squared_have_no_t_test(unit: float) -> None:
    found = paired_seeds({1: unit, 2: 3 * unit, 3: 2 * unit}, {1: 0.0, 2: 0.0, 3: 0.0})
    assert (found.difference, found.sd, found.interval, found.p) == (0.0, 0.0, None, None)
    assert summary([unit, 3 * unit]).interval is None
    assert "no difference shown" in found.undecided()


@pytest.mark.parametrize("unit", [1e-140, 1e-20, 1.0, 1e20, 1e140])
def test_the_t_test_does_not_depend_on_the_unit(unit: float) -> None:
    found = paired_seeds({seed: score * unit for seed, score in SYSTEM.items()}, dict.fromkeys(SYSTEM, 0.0))
    plain = paired_seeds(SYSTEM, dict.fromkeys(SYSTEM, 0.0))
    assert found.p == pytest.approx(plain.p, rel=1e-9)
    assert found.p is not None
    assert found.sd == pytest.approx(unit * (plain.sd or 0.0), rel=1e-9)


def test_a_real_spread_far_below_the_scores_is_seen() -> None:
    found = paired_seeds({1: 75.0 + 1e-4, 2: 76.0 + 2e-4, 3: 77.0 + 3e-4}, {1: 75.0, 2: 76.0, 3: 77.0})
    assert found.sd == pytest.approx(1e-4, rel=1e-6)
    assert found.p is not None


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


@pytest.mark.slow
@given(st.lists(st.tuples(SCORES, SCORES), min_size=1, max_size=8))
@example([(2.2e-311, 0.0), (0.0, 0.0)])
@example([(5e-324, 0.0), (0.0, 5e-324), (0.0, 0.0)])
@example([(1e150, -1e150), (-1e150, 1e150)])
def test_swapped_systems_flip_the_sign_and_keep_p(scores: list[tuple[float, float]]) -> None:
    one = {seed: pair[0] for seed, pair in enumerate(scores)}
    two = {seed: pair[1] for seed, pair in enumerate(scores)}
    there, back = paired_seeds(one, two), paired_seeds(two, one)
    assert there.difference == -back.difference
    assert (there.p, there.sd, there.sign_flip_p) == (back.p, back.sd, back.sign_flip_p)
    assert (there.interval is None) == (back.interval is None)
    if there.interval is not None and back.interval is not None:
        assert there.interval == (-back.interval[1], -back.interval[0])


def test_faults_are_told_in_one_line() -> None:
    with pytest.raises(UserError, match=r"no seed in common \(system: 1, 2; baseline: 3\); run both at the same seeds"):
        paired_seeds({2: 1.0, 1: 2.0}, {3: 1.0})
    with pytest.raises(UserError, match="the baseline, seed 4: the score is nan; a finite number is expected"):
        paired_seeds({3: 1.0}, {3: 1.0, 4: math.nan})
    with pytest.raises(UserError, match="the scores, value 1: the score is inf"):
        summary([1.0, math.inf])
    with pytest.raises(UserError, match=r"the scores, value 1: the score is 1e\+200; at most 1e\+150 is expected"):
        summary([1.0, 1e200])
    for empty in (lambda: summary([]), lambda: paired_seeds({}, {1: 1.0})):
        with pytest.raises(UserError, match="no score is there"):
            empty()
