"""The classifiers of SentEval against plain loops, and how they are selected on folds."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.model_selection import StratifiedKFold  # type: ignore[import-untyped]
from torch import nn

from opencse.errors import UserError
from opencse.evaluation.classifiers.cross_validation import Fold, kfold, nested, split, stratified_folds
from opencse.evaluation.classifiers.regressor import SETTINGS, Regressor, RegressorSettings, fit, soft_labels
from opencse.evaluation.classifiers.settings import MODES, ClassifierSettings, Mode
from opencse.evaluation.classifiers.trained import Classifiers
from opencse.statistics.correlation import spearman

GRID = (1e-5, 1e-4, 1e-3, 1e-2)
Labels = NDArray[np.intp]


class Plain:
    """One fit, in float64, by the protocol in words."""

    def __init__(self, settings: ClassifierSettings, l2: float, classes: int) -> None:
        self.settings, self.l2, self.classes = settings, l2, classes
        self.rounds = 0

    def fit(self, x: NDArray[np.float64], y: Labels, dev: tuple[NDArray[np.float64], Labels] | None) -> float:
        with torch.random.fork_rng():
            torch.manual_seed(self.settings.seed)
            return self._fit(x, y, dev, np.random.RandomState(self.settings.seed))

    def _fit(
        self,
        x: NDArray[np.float64],
        y: Labels,
        dev: tuple[NDArray[np.float64], Labels] | None,
        numbers: np.random.RandomState,
    ) -> float:
        s = self.settings
        if s.hidden == 0:
            model = nn.Sequential(nn.Linear(x.shape[1], self.classes))
        else:
            model = nn.Sequential(
                nn.Linear(x.shape[1], s.hidden), nn.Dropout(s.dropout), nn.Sigmoid(), nn.Linear(s.hidden, self.classes)
            )
        model = model.double()
        optimizer: torch.optim.Optimizer
        if s.optimizer == "adam":
            optimizer = torch.optim.Adam(model.parameters(), weight_decay=self.l2)
        else:
            optimizer = torch.optim.RMSprop(model.parameters(), weight_decay=self.l2)
        if dev is None:
            order = numbers.permutation(len(x))
            count = int(0.05 * len(x))
            dev = x[order[:count]], y[order[:count]]
            x, y = x[order[count:]], y[order[count:]]
        inputs, targets = torch.from_numpy(x), torch.from_numpy(y)
        best, bad, passes, stop = -1.0, 0, 0, False
        self.best = model
        while not stop and passes <= s.max_epoch:
            model.train()
            for _ in range(s.epoch_size):
                order = numbers.permutation(len(x))
                for i in range(0, len(x), s.batch_size):
                    chosen = torch.from_numpy(order[i : i + s.batch_size])
                    loss = nn.functional.cross_entropy(model(inputs[chosen]), targets[chosen])
                    optimizer.zero_grad()
                    loss.backward()  # type: ignore[no-untyped-call]
                    optimizer.step()
            passes += s.epoch_size
            self.rounds += 1
            model.eval()
            accuracy = self._share(model, *dev)
            if accuracy > best:
                best, self.best = accuracy, copy.deepcopy(model)
            else:
                stop = bad >= s.tenacity
                bad += 1
        return best

    def score(self, x: NDArray[np.float64], y: Labels) -> float:
        return self._share(self.best.eval(), x, y)

    @staticmethod
    def _share(model: nn.Module, x: NDArray[np.float64], y: Labels) -> float:
        with torch.no_grad():
            found = model(torch.from_numpy(x)).argmax(dim=1).numpy()
        right = sum(int(a == b) for a, b in zip(found, y, strict=True))
        return right / len(y)


def points(n: int, d: int, classes: int, seed: int, noise: float = 1.5) -> tuple[NDArray[np.float64], Labels]:
    numbers = np.random.default_rng(seed)
    labels = numbers.integers(0, classes, size=n)
    centres = numbers.normal(size=(classes, d))
    return centres[labels] + noise * numbers.normal(size=(n, d)), labels


def small(mode: Mode, *, folds: int = 3) -> ClassifierSettings:
    """The mode's own protocol on small data: fewer folds, less tenacity, small batches that do not divide."""
    return replace(MODES[mode], folds=folds, tenacity=1, batch_size=MODES[mode].batch_size // 5, max_epoch=60)


def fitter(x: NDArray[np.float64], y: Labels, settings: ClassifierSettings, at_once: int | None = None) -> Classifiers:
    return Classifiers(x, y, settings, dtype=torch.float64, at_once=at_once)


def folds_by_sklearn(x: NDArray[np.float64], y: Labels, k: int) -> list[tuple[Labels, Labels]]:
    return list(StratifiedKFold(k, shuffle=True, random_state=1111).split(x, y))


@pytest.mark.slow
def test_nested_is_exactly_the_plain_loop() -> None:
    classes = 3
    x, y = points(64, 6, classes, seed=64)
    settings = small("fast")
    accuracies, chosen, devs, rounds = [], [], [], set()
    for train, test in folds_by_sklearn(x, y, settings.folds):
        scores = []
        for l2 in GRID:
            shares = []
            for part, rest in folds_by_sklearn(x[train], y[train], settings.folds):
                plain = Plain(settings, l2, classes)
                plain.fit(x[train][part], y[train][part], (x[train][rest], y[train][rest]))
                shares.append(plain.score(x[train][rest], y[train][rest]))
                rounds.add(plain.rounds)
            scores.append(round(100 * float(np.mean(shares)), 2))
        best = GRID[int(np.argmax(scores))]
        plain = Plain(settings, best, classes)
        plain.fit(x[train], y[train], None)
        accuracies.append(100 * plain.score(x[test], y[test]))
        chosen.append(best)
        devs.append(max(scores))
    got = nested(fitter(x, y, settings), y, settings.folds, GRID)
    assert got.accuracy == pytest.approx(np.mean(accuracies), abs=1e-12)
    assert got.selected == tuple(chosen)
    assert got.dev_accuracy == pytest.approx(np.mean(devs), abs=1e-12)
    assert got.fits == settings.folds**2 * len(GRID) + settings.folds
    assert len({len(train) for train, _ in folds_by_sklearn(x, y, settings.folds)}) == 2  # sizes differ by one
    assert len(rounds) > 1  # fits end at different times


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "classes"), [("test", 4), ("fast", 2)])
def test_kfold_and_split_are_exactly_the_plain_loop(mode: Mode, classes: int) -> None:
    x, y = points(130, 5, classes, seed=9 + classes)
    settings = small(mode)
    train, dev, test = np.arange(77), np.arange(77, 100), np.arange(100, 130)
    scores = []
    for l2 in GRID:
        shares = []
        for part, rest in folds_by_sklearn(x[train], y[train], settings.folds):
            plain = Plain(settings, l2, classes)
            shares.append(plain.fit(x[part], y[part], (x[rest], y[rest])))
        scores.append(round(100 * float(np.mean(shares)), 2))
    best = GRID[int(np.argmax(scores))]
    plain = Plain(settings, best, classes)
    plain.fit(x[train], y[train], None)
    got = kfold(fitter(x, y, settings), y, train, test, settings.folds, GRID)
    assert got.accuracy == 100 * plain.score(x[test], y[test])
    assert got.selected == (best,)
    assert got.dev_accuracy == max(scores)

    scores = []
    for l2 in GRID:
        plain = Plain(settings, l2, classes)
        plain.fit(x[train], y[train], (x[dev], y[dev]))
        scores.append(round(100 * plain.score(x[dev], y[dev]), 2))
    best = GRID[int(np.argmax(scores))]
    again = Plain(settings, best, classes)
    again.fit(x[train], y[train], (x[dev], y[dev]))
    got = split(fitter(x, y, settings), y, train, dev, test, GRID)
    assert got.accuracy == 100 * again.score(x[test], y[test])
    assert got.selected == (best,)
    assert got.dev_accuracy == max(scores)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "more"), [("fast", {"hidden": 4}), ("test", {"tenacity": 99, "max_epoch": 8})])
def test_the_weights_are_exactly_those_of_the_plain_loop(mode: Mode, more: dict[str, Any]) -> None:
    """With a hidden layer; and with a last round that begins at ``max_epoch``, two rounds of four passes."""
    x, y = points(83, 5, 3, seed=2)
    settings = replace(small(mode), **({"hidden": 7, "dropout": 0.3} | more))
    train, dev, test = np.arange(50), np.arange(50, 65), np.arange(65, 83)
    others = np.arange(1, 51)
    got = fitter(x, y, settings).fit([Fold(train, dev), Fold(others, test)], [GRID, GRID])
    for f, (rows, check) in enumerate([(train, dev), (others, test)]):
        for r, l2 in enumerate(GRID):
            plain = Plain(settings, l2, 3)
            assert got.accuracy[f, r] == plain.fit(x[rows], y[rows], (x[check], y[check]))
            assert np.mean(got.predict(f, r, test) == y[test]) == plain.score(x[test], y[test])
            wanted = [torch.cat([m.weight, m.bias[:, None]], 1) for m in plain.best if isinstance(m, nn.Linear)]
            for ours, theirs in zip(got.parameters[f], wanted, strict=True):
                torch.testing.assert_close(ours[r], theirs.detach(), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_how_many_are_trained_at_once_changes_nothing() -> None:
    x, y = points(71, 6, 2, seed=71)
    settings = small("fast")
    folds = [Fold(train, test) for train, test in folds_by_sklearn(x, y, 5)]
    wanted = fitter(x, y, settings).fit(folds, [GRID] * 5)
    got = fitter(x, y, settings, at_once=6000).fit(folds, [GRID] * 5)
    assert np.array_equal(got.accuracy, wanted.accuracy)
    for one, other in zip(got.parameters, wanted.parameters, strict=True):
        torch.testing.assert_close(one[0], other[0], rtol=1e-10, atol=1e-10)


@pytest.mark.slow
def test_a_training_set_too_small_for_a_dev_share() -> None:
    x, y = points(19, 3, 2, seed=0)
    with pytest.raises(UserError, match=r"^19 sentences .* at least 20$"):
        fitter(x, y, MODES["fast"]).fit([Fold(np.arange(19), None)], [[1e-4]])
    x, y = points(20, 3, 2, seed=0)
    assert fitter(x, y, MODES["fast"]).fit([Fold(np.arange(20), None)], [[1e-4]]).accuracy[0, 0] in (0, 1)


FOLD_GRID = (1.0, 2.0, 3.0)
FOLDS = [[5, 6, 7, 10], [1, 3, 4, 8], [0, 2, 9, 11]]


def test_folds_are_stratified_and_those_of_sent_eval() -> None:
    labels = np.array([0, 1, 1, 0, 2, 1, 0, 2, 1, 2, 0, 1])
    folds = stratified_folds(labels, 3)
    assert [test.tolist() for _, test in folds] == FOLDS
    for train, test in folds:
        assert sorted([*train, *test]) == list(range(12))
        assert set(labels[test]) == {0, 1, 2}


def test_a_class_too_small_for_the_folds() -> None:
    with pytest.raises(UserError, match=r"^class 1 has 2 sentences, too few for 3 folds"):
        stratified_folds(np.array([0, 0, 0, 1, 1]), 3)


@dataclass
class Told:
    """A fitter that answers with what it is told, and remembers what it was asked."""

    shares: NDArray[np.float64]
    asked: list[tuple[list[Fold], list[list[float]]]] = field(default_factory=list)

    def fit(self, folds: Sequence[Fold], regularisation: Sequence[Sequence[float]]) -> ToldFits:
        self.asked.append((list(folds), [list(values) for values in regularisation]))
        return ToldFits(np.resize(self.shares, (len(folds), len(regularisation[0]))), self.asked[-1][1])


@dataclass
class ToldFits:
    """Tells a row's class as its number modulo the regularisation."""

    accuracy: NDArray[np.float64]
    regularisation: list[list[float]]

    def predict(self, fold: int, regularisation: int, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        modulo: NDArray[np.intp] = rows % int(self.regularisation[fold][regularisation])
        return modulo


@pytest.mark.parametrize(
    ("means", "chosen", "dev"),
    [
        ((0.7, 0.7, 0.7), 1.0, 70.0),
        ((0.500001, 0.50002, 0.50004), 1.0, 50.0),  # equal after rounding to two decimals
        ((0.50001, 0.50016, 0.50002), 2.0, 50.02),
    ],
)
def test_the_first_highest_rounded_mean_is_chosen(means: tuple[float, ...], chosen: float, dev: float) -> None:
    labels = np.arange(30) % 2
    spread = np.array([means, means, means]) + np.array([[-0.1], [0.0], [0.1]])
    by_fold = kfold(Told(spread), labels, np.arange(24), np.arange(24, 30), 3, FOLD_GRID)
    by_dev = split(Told(np.array([means])), labels, np.arange(12), np.arange(12, 24), np.arange(24, 30), FOLD_GRID)
    for got in (by_fold, by_dev):
        assert got.selected == (chosen,)
        assert got.dev_accuracy == dev
        assert np.array_equal(got.predicted, np.arange(24, 30) % chosen)
        assert got.accuracy == pytest.approx(100 * np.mean(np.arange(24, 30) % chosen == labels[24:]))


def test_modes_are_senteval_s() -> None:
    assert MODES["test"] == ClassifierSettings("adam", 64, 5, 4, 10, max_epoch=200, hidden=0, dropout=0, seed=1111)
    assert MODES["fast"] == ClassifierSettings("rmsprop", 128, 3, 2, 5, max_epoch=200, hidden=0, dropout=0, seed=1111)


Rows = NDArray[np.float64]
SHORT = RegressorSettings(batch_size=8, passes=12, misses=2, max_passes=120)


def graded_points(n: int, d: int, seed: int, low: float = 1.0) -> tuple[Rows, Rows]:
    numbers = np.random.default_rng(seed)
    x = numbers.normal(size=(n, d))
    grade = x @ np.linspace(-1, 1, d) + 0.7 * numbers.normal(size=n)
    return x, np.clip(low + (5 - low) / (1 + np.exp(-grade)), low, 5)


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(("n", "low", "seed"), [(64, 0.0, 1), (35, 1.0, 2)])
def test_a_fit_is_the_plain_loop(n: int, low: float, seed: int) -> None:
    x, y = graded_points(n, 6, seed, low)
    dev, (test, _) = graded_points(40, 6, seed + 50, low), graded_points(30, 6, seed + 90, low)
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


@pytest.mark.slow
def test_misses_are_counted_over_the_whole_fit_and_the_best_is_kept() -> None:
    x, y = graded_points(20, 3, 0)
    seen: list[torch.Tensor] = []
    check = scripted([0.1, 0.2, 0.15, 0.2, 0.1, 0.3, 0.3, 0.9], seen)
    found = fit(x, y, check, settings=replace(SETTINGS, passes=2))
    assert len(seen) == 7
    assert (found.passes, found.dev) == (14, 0.3)
    assert torch.equal(found.weights, seen[5])
    assert not torch.equal(seen[5], seen[6])


@pytest.mark.slow
def test_no_round_begins_after_the_last_pass() -> None:
    x, y = graded_points(20, 3, 0)
    seen: list[torch.Tensor] = []
    found = fit(x, y, scripted(list(np.arange(50) / 50), seen), settings=replace(SETTINGS, passes=1, max_passes=20))
    assert (len(seen), found.passes) == (21, 21)
    assert torch.equal(found.weights, seen[-1])


@pytest.mark.slow
def test_the_protocol_is_senteval_s() -> None:
    assert (SETTINGS.batch_size, SETTINGS.passes, SETTINGS.misses, SETTINGS.max_passes) == (64, 50, 4, 1000)
    assert SETTINGS.seed == 1111
