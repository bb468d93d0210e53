"""The regressor against a plain loop with ``nn.Linear``, ``nn.MSELoss`` and ``torch.optim.Adam``, in float64."""

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import spearmanr
from torch import nn

from opencse.evaluation.classifiers.regressor import SETTINGS, Regressor, RegressorSettings, fit, soft_labels
from opencse.statistics.correlation import spearman

Rows = NDArray[np.float64]
SHORT = RegressorSettings(batch_size=8, passes=12, misses=2, max_passes=120)
pytestmark = pytest.mark.slow


def points(n: int, d: int, seed: int, low: float = 1.0) -> tuple[Rows, Rows]:
    numbers = np.random.default_rng(seed)
    x = numbers.normal(size=(n, d))
    grade = x @ np.linspace(-1, 1, d) + 0.7 * numbers.normal(size=n)
    return x, np.clip(low + (5 - low) / (1 + np.exp(-grade)), low, 5)


@pytest.mark.parametrize(
    ("score", "wanted"),
    [
        (1.0, [1, 0, 0, 0, 0]),
        (3.6, [0, 0, 0.4, 0.6, 0]),
        (4.25, [0, 0, 0, 0.75, 0.25]),
        (5.0, [0, 0, 0, 0, 1]),
        (0.0, [0, 0, 0, 0, 0]),
        (0.3, [0.3, 0, 0, 0, 0]),
    ],
)
def test_soft_labels_known(score: float, wanted: list[float]) -> None:
    assert soft_labels(np.array([score]))[0].tolist() == pytest.approx(wanted)


@given(st.lists(st.floats(0, 5), min_size=1, max_size=20))
def test_soft_labels_by_loops(scores: list[float]) -> None:
    found = soft_labels(np.array(scores))
    for row, y in zip(found, scores, strict=True):
        for i in range(1, 6):
            wanted = 0.0
            if i == math.floor(y) + 1:
                wanted = y - math.floor(y)
            if i == math.floor(y):
                wanted = math.floor(y) - y + 1
            assert row[i - 1] == pytest.approx(wanted, abs=1e-12)
        assert sum(i * share for i, share in enumerate(row, start=1)) == pytest.approx(y, abs=1e-9)


def by_loop(
    x: Rows, y: Rows, dev: tuple[Rows, Rows], test: Rows, settings: RegressorSettings
) -> tuple[nn.Sequential, float, int, Rows]:
    targets = torch.from_numpy(soft_labels(y))
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)
        model = nn.Sequential(nn.Linear(x.shape[1], 5), nn.Softmax(dim=-1)).double()
    numbers = np.random.RandomState(settings.seed)
    optimizer = torch.optim.Adam(model.parameters())
    rows = torch.from_numpy(x)

    def grades(of: nn.Module, features: Rows) -> Rows:
        with torch.no_grad():
            shares = of(torch.from_numpy(features)).numpy()
        return np.array([sum((i + 1) * share for i, share in enumerate(row)) for row in shares])

    best, kept, misses, passes = -1.0, copy.deepcopy(model), 0, 0
    while passes <= settings.max_passes:
        for _ in range(settings.passes):
            order = numbers.permutation(len(x))
            for start in range(0, len(x), settings.batch_size):
                chosen = torch.from_numpy(order[start : start + settings.batch_size])
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(model(rows[chosen]), targets[chosen])
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        passes += settings.passes
        found = float(spearmanr(grades(model, dev[0]), dev[1]).statistic)
        if found > best:
            best, kept = found, copy.deepcopy(model)
        else:
            misses += 1
            if misses == settings.misses:
                break
    return kept, best, passes, grades(kept, test)


@pytest.mark.parametrize(("n", "low", "seed"), [(70, 1.0, 0), (64, 0.0, 1), (35, 0.0, 2)])
def test_a_fit_is_the_plain_loop(n: int, low: float, seed: int) -> None:
    x, y = points(n, 6, seed, low)
    dev, (test, _) = points(40, 6, seed + 50, low), points(30, 6, seed + 90, low)
    settings = replace(SHORT, seed=1111 + seed)

    def check(regressor: Regressor) -> float:
        return spearman(regressor.predict(dev[0]), dev[1])

    found = fit(x, y, check, settings=settings, dtype=torch.float64)
    model, best, passes, grades = by_loop(x, y, dev, test, settings)
    linear = model[0]
    assert isinstance(linear, nn.Linear)
    assert found.passes == passes
    assert found.dev == pytest.approx(best, abs=1e-12)
    assert np.allclose(found.weights[:, :-1].numpy(), linear.weight.detach().numpy(), atol=1e-10)
    assert np.allclose(found.weights[:, -1].numpy(), linear.bias.detach().numpy(), atol=1e-10)
    assert np.allclose(found.predict(test), grades, atol=1e-10)
    assert passes >= 2 * settings.passes
    assert 0.3 < best < 1


def scripted(values: list[float], seen: list[torch.Tensor]) -> Callable[[Regressor], float]:
    told: Iterator[float] = iter(values)

    def check(regressor: Regressor) -> float:
        seen.append(regressor.weights.clone())
        return next(told)

    return check


def test_misses_are_counted_over_the_whole_fit_and_the_best_is_kept() -> None:
    x, y = points(20, 3, 0)
    seen: list[torch.Tensor] = []
    check = scripted([0.1, 0.2, 0.15, 0.2, 0.1, 0.3, 0.3, 0.9], seen)
    found = fit(x, y, check, settings=replace(SETTINGS, passes=2))
    assert len(seen) == 7
    assert (found.passes, found.dev) == (14, 0.3)
    assert torch.equal(found.weights, seen[5])
    assert not torch.equal(seen[5], seen[6])


def test_no_round_begins_after_the_last_pass() -> None:
    x, y = points(20, 3, 0)
    seen: list[torch.Tensor] = []
    found = fit(x, y, scripted(list(np.arange(50) / 50), seen), settings=replace(SETTINGS, passes=1, max_passes=20))
    assert (len(seen), found.passes) == (21, 21)
    assert torch.equal(found.weights, seen[-1])


def test_the_protocol_is_senteval_s() -> None:
    assert (SETTINGS.batch_size, SETTINGS.passes, SETTINGS.misses, SETTINGS.max_passes) == (64, 50, 4, 1000)
    assert SETTINGS.seed == 1111


def test_the_global_generators_are_left_alone() -> None:
    x, y = points(30, 4, 3)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
    first = fit(x, y, lambda _: 0.5, settings=SHORT)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]  # type: ignore[index]  # noqa: NPY002
    torch.manual_seed(9)
    np.random.seed(9)  # noqa: NPY002
    assert torch.equal(fit(x, y, lambda _: 0.5, settings=SHORT).weights, first.weights)
