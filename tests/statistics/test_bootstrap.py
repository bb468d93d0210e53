import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from opencse.evaluation import spearman
from opencse.statistics import bootstrap, paired_bootstrap, paired_bootstrap_tasks

Floats = NDArray[np.float64]
Triple = tuple[Floats, Floats, Floats]


def judged(n: int, seed: int, *, ties: bool) -> Triple:
    """Gold in steps of a fifth, as STS has it, a nearer system, and one further off."""
    rng = np.random.default_rng(seed)
    gold = np.round(rng.uniform(0, 5, n) * 5) / 5
    a, b = gold + rng.normal(size=n), gold + 2 * rng.normal(size=n)
    return (gold, np.round(a), np.round(b)) if ties else (gold, a, b)


def naive_ranks(values: list[float]) -> list[float]:
    return [1 + sum(o < v for o in values) + (sum(o == v for o in values) - 1) / 2 for v in values]


def naive_spearman(x: list[float], y: list[float]) -> float:
    one, two = naive_ranks(x), naive_ranks(y)
    middle = (len(x) + 1) / 2
    top = sum((p - middle) * (q - middle) for p, q in zip(one, two, strict=True))
    below = sum((p - middle) ** 2 for p in one) * sum((q - middle) ** 2 for q in two)
    return top / math.sqrt(below) if below > 0 else 0.0


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n", [3, 17, 400])
def test_counted_ranks_give_scipy_s_spearman_of_every_resample(n: int, ties: bool) -> None:
    gold, a, b = judged(n, n, ties=ties)
    draws = np.random.default_rng(1).integers(0, n, size=(25, n))
    found = bootstrap.spearman_of_draws([gold, a, b], draws)
    assert found.shape == (2, 25)
    seen = set()
    for system, values in enumerate((a, b)):
        for row, drawn in enumerate(draws):
            x, y = values[drawn], gold[drawn]
            if len(set(x.tolist())) == 1 or len(set(y.tolist())) == 1:
                assert found[system, row] == 0.0
                continue
            seen.add(row)
            assert found[system, row] == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)
            if n < 100:
                assert found[system, row] == pytest.approx(naive_spearman(x.tolist(), y.tolist()), abs=1e-12)
    assert len(seen) > 15


@pytest.mark.slow
@given(st.lists(st.tuples(*[st.integers(-2, 2)] * 3), min_size=2, max_size=12))
def test_any_ties_equal_the_naive_loops(rows: list[tuple[int, int, int]]) -> None:
    gold, a, b = (np.array(side, dtype=np.float64) for side in zip(*rows, strict=True))
    draws = np.random.default_rng(len(rows)).integers(0, len(rows), size=(4, len(rows)))
    found = bootstrap.spearman_of_draws([gold, a, b], draws)
    for row, drawn in enumerate(draws):
        for system, values in enumerate((a, b)):
            expected = naive_spearman(values[drawn].tolist(), gold[drawn].tolist())
            assert found[system, row] == pytest.approx(expected, abs=1e-12)


def test_the_whole_bootstrap_equals_naive_loops() -> None:
    gold, a, b = judged(40, 3, ties=True)
    found = paired_bootstrap(gold, a, b, resamples=99, seed=5)
    rng = np.random.default_rng(5)
    differences = []
    for _ in range(99):
        drawn = [int(i) for i in rng.integers(0, 40, 40)]
        g = [float(gold[i]) for i in drawn]
        differences.append(100 * (naive_spearman([a[i] for i in drawn], g) - naive_spearman([b[i] for i in drawn], g)))
    observed = 100 * (spearman(a, gold) - spearman(b, gold))
    assert found.difference == pytest.approx(observed, abs=1e-10)
    hits = sum(abs(d - observed) >= abs(observed) for d in differences)
    assert found.p == (1 + hits) / 100
    ordered = sorted(differences)
    lower = ordered[2] + 0.45 * (ordered[3] - ordered[2])  # place .025 * 98 = 2.45
    upper = ordered[95] + 0.55 * (ordered[96] - ordered[95])
    assert found.interval == pytest.approx((lower, upper), abs=1e-10)
    assert len({round(d, 6) for d in differences}) > 90


def test_blocks_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    gold, a, b = judged(37, 0, ties=True)
    whole = paired_bootstrap(gold, a, b, resamples=50)
    for block in (1, 38, 37 * 7):
        monkeypatch.setattr(bootstrap, "BLOCK", block)
        assert paired_bootstrap(gold, a, b, resamples=50) == whole


def test_a_seed_gives_the_same_and_another_seed_nearly_the_same() -> None:
    gold, a, b = judged(300, 1, ties=False)
    state = np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
    one, two = (paired_bootstrap(gold, a, b, resamples=500, seed=seed) for seed in (0, 1))
    assert one == paired_bootstrap(gold, a, b, resamples=500, seed=0)
    assert one.interval != two.interval
    assert one.interval == pytest.approx(two.interval, abs=2.0)
    assert np.random.get_state()[1].tolist() == state  # type: ignore[index]  # noqa: NPY002


@pytest.mark.parametrize("ties", [False, True])
def test_swapped_systems_flip_the_sign_and_keep_p(ties: bool) -> None:
    gold, a, b = judged(30, 2, ties=ties)
    there, back = (paired_bootstrap(gold, *pair, resamples=200) for pair in ((a, b), (b, a)))
    assert there.difference == -back.difference != 0
    assert there.p == back.p
    assert there.interval is not None
    assert back.interval is not None
    assert there.interval == pytest.approx((-back.interval[1], -back.interval[0]), abs=1e-10)


def test_systems_that_rank_alike_differ_by_exactly_nothing() -> None:
    gold, a, _ = judged(30, 4, ties=True)
    found = paired_bootstrap(gold, a, np.exp(a / 10), resamples=50)
    assert (found.difference, found.interval, found.p) == (0.0, (0.0, 0.0), 1.0)


def test_a_clear_difference_has_the_least_p_and_never_zero() -> None:
    gold, a, _ = judged(200, 5, ties=False)
    found = paired_bootstrap(gold, a, -a, resamples=99)
    assert found.p == 1 / 100
    assert found.interval is not None
    assert found.interval[0] > 50
    assert found.over() == "200 pairs"


def test_only_ranks_count() -> None:
    gold, a, b = judged(50, 6, ties=True)
    plain = paired_bootstrap(gold, a, b, resamples=50)
    assert paired_bootstrap(gold**3, np.exp(a), b / 7 - 2, resamples=50) == plain
    assert paired_bootstrap(gold.astype(np.float32), a, b, resamples=50) == plain


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


def test_two_tasks_of_equal_data_are_drawn_apart() -> None:
    gold, a, b = judged(60, 1, ties=False)
    twice = paired_bootstrap_tasks(*({"x": side, "y": side} for side in (gold, a, b)), resamples=300)
    one, two = twice.tasks["x"].interval, twice.tasks["y"].interval
    assert one is not None
    assert two is not None
    assert twice.interval is not None
    assert one != two
    assert (twice.interval[1] - twice.interval[0]) == pytest.approx((one[1] - one[0]) / math.sqrt(2), rel=0.2)


def test_faults() -> None:
    gold, a, b = judged(5, 0, ties=False)
    with pytest.raises(ValueError, match=r"three \(n,\) arrays of one length"):
        paired_bootstrap(gold, a[:4], b)
    with pytest.raises(ValueError, match="three"):
        paired_bootstrap(gold[:1], a[:1], b[:1])
    with pytest.raises(ValueError, match="NaN"):
        paired_bootstrap(gold, a, np.full(5, np.nan))
    with pytest.raises(ValueError, match="resamples is 0"):
        paired_bootstrap(gold, a, b, resamples=0)
    with pytest.raises(ValueError, match="same tasks"):
        paired_bootstrap_tasks({"x": gold}, {"x": a}, {"y": b})
    with pytest.raises(ValueError, match="same tasks"):
        paired_bootstrap_tasks({}, {}, {})
