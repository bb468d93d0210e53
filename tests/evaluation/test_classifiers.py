"""The classifiers of SentEval against plain loops, and how they are selected on folds."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.model_selection import StratifiedKFold  # type: ignore[import-untyped]
from torch import nn

from opencse.evaluation.classifiers import SETTINGS, Classifiers, fit, soft_labels
from opencse.evaluation.cross_validation import (
    MODES,
    ClassifierSettings,
    Fold,
    Mode,
    kfold,
    nested,
    split,
    stratified_folds,
)
from opencse.statistics.correlation import spearman

GRID = (1e-5, 1e-4, 1e-3, 1e-2)
Labels = NDArray[np.intp]


class Plain:
    """One fit, in float64, by the protocol in words."""

    def __init__(self, settings: ClassifierSettings, l2: float, classes: int) -> None:
        self.settings, self.l2, self.classes = settings, l2, classes
        self.rounds = 0

    def fit(self, x: NDArray[np.float64], y: Labels, dev: tuple[NDArray[np.float64], Labels] | None) -> float:
        s, numbers = self.settings, np.random.RandomState(self.settings.seed)
        with torch.random.fork_rng():
            torch.manual_seed(s.seed)
            if s.hidden == 0:
                layers: list[nn.Module] = [nn.Linear(x.shape[1], self.classes)]
            else:
                hidden = nn.Linear(x.shape[1], s.hidden)
                layers = [hidden, nn.Dropout(s.dropout), nn.Sigmoid(), nn.Linear(s.hidden, self.classes)]
            model = self.best = nn.Sequential(*layers).double()
            kind = torch.optim.Adam if s.optimizer == "adam" else torch.optim.RMSprop
            optimizer = kind(model.parameters(), weight_decay=self.l2)
            if dev is None:
                order = numbers.permutation(len(x))
                count = int(0.05 * len(x))
                dev = x[order[:count]], y[order[:count]]
                x, y = x[order[count:]], y[order[count:]]
            inputs, targets = torch.from_numpy(x), torch.from_numpy(y)
            best, bad, passes, stop = -1.0, 0, 0, False
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
                accuracy = share(model.eval(), *dev)
                if accuracy > best:
                    best, self.best = accuracy, copy.deepcopy(model)
                else:
                    stop = bad >= s.tenacity
                    bad += 1
        return best

    def score(self, x: NDArray[np.float64], y: Labels) -> float:
        return share(self.best.eval(), x, y)


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
            for ours, theirs in zip(got.predict.args[0][f], wanted, strict=True):  # type: ignore[attr-defined]
                torch.testing.assert_close(ours[r], theirs.detach(), rtol=1e-9, atol=1e-9)


FOLDS = [[5, 6, 7, 10], [1, 3, 4, 8], [0, 2, 9, 11]]


def test_folds_are_stratified_and_those_of_sent_eval() -> None:
    labels = np.array([0, 1, 1, 0, 2, 1, 0, 2, 1, 2, 0, 1])
    folds = stratified_folds(labels, 3)
    assert [test.tolist() for _, test in folds] == FOLDS
    assert all(sorted([*train, *test]) == list(range(12)) for train, test in folds)


Rows = NDArray[np.float64]


def graded_points(n: int, d: int, seed: int, low: float = 1.0) -> tuple[Rows, Rows]:
    numbers = np.random.default_rng(seed)
    x = numbers.normal(size=(n, d))
    grade = x @ np.linspace(-1, 1, d) + 0.7 * numbers.normal(size=n)
    return x, np.clip(low + (5 - low) / (1 + np.exp(-grade)), low, 5)


def by_loop(
    x: Rows, y: Rows, dev: tuple[Rows, Rows], test: Rows, settings: ClassifierSettings
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
    while passes <= settings.max_epoch:
        for _ in range(settings.epoch_size):
            order = numbers.permutation(len(x))
            for start in range(0, len(x), settings.batch_size):
                chosen = torch.from_numpy(order[start : start + settings.batch_size])
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(model(rows[chosen]), targets[chosen])
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        passes += settings.epoch_size
        found = float(spearmanr(grades(model, dev[0]), dev[1]).statistic)
        if found > best:
            best, kept = found, copy.deepcopy(model)
        else:
            misses += 1
            if misses > settings.tenacity:
                break
    return kept, best, passes, grades(kept, test)


@pytest.mark.parametrize(("n", "low", "misses", "most"), [(64, 0.0, 2, 120), (35, 1.0, 99, 36)])
@pytest.mark.slow
def test_a_fit_is_the_plain_loop(n: int, low: float, misses: int, most: int) -> None:
    x, y = graded_points(n, 6, 1, low)
    dev, (test, _) = graded_points(40, 6, 51, low), graded_points(30, 6, 91, low)
    settings = replace(SETTINGS, batch_size=8, epoch_size=12, tenacity=misses - 1, max_epoch=most)
    found = fit(x, y, lambda one: spearman(one.predict(dev[0]), dev[1]), settings=settings, dtype=torch.float64)
    model, best, passes, grades = by_loop(x, y, dev, test, settings)
    linear = model[0]
    assert isinstance(linear, nn.Linear)
    assert found.passes == passes
    assert found.dev == pytest.approx(best, abs=1e-12)
    assert np.allclose(found.weights[:, :-1].numpy(), linear.weight.detach().numpy(), atol=1e-10)
    assert np.allclose(found.predict(test), grades, atol=1e-10)
    assert 0 < best < 1


def test_soft_labels() -> None:
    expected = [[1, 0, 0, 0, 0], [0, 0.75, 0.25, 0, 0], [0, 0, 0, 0.5, 0.5], [0, 0, 0, 0, 1]]
    assert soft_labels(np.array([1, 2.25, 4.5, 5])) == pytest.approx(np.array(expected), abs=1e-12)
    assert soft_labels(np.array([0.25]))[0] == pytest.approx([0.25, 0, 0, 0, 0])


def test_the_protocols_are_senteval_s() -> None:
    assert MODES["test"] == ClassifierSettings("adam", 64, 5, 4, 10, max_epoch=200, hidden=0, dropout=0, seed=1111)
    assert MODES["fast"] == ClassifierSettings("rmsprop", 128, 3, 2, 5, max_epoch=200, hidden=0, dropout=0, seed=1111)
    assert ClassifierSettings("adam", 64, 3, 50, 10, max_epoch=1000, hidden=0, dropout=0, seed=1111) == SETTINGS


def share(model: nn.Module, x: NDArray[np.float64], y: Labels) -> float:
    with torch.no_grad():
        found = model(torch.from_numpy(x)).argmax(dim=1).numpy()
    return sum(int(a == b) for a, b in zip(found, y, strict=True)) / len(y)
