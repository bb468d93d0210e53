"""The classifiers trained side by side against a plain loop: one ``nn.Module`` after another with ``torch.optim``."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold  # type: ignore[import-untyped]
from torch import nn

from opencse.errors import UserError
from opencse.evaluation.classifiers.cross_validation import Fold, kfold, nested, split
from opencse.evaluation.classifiers.logistic import Logistic
from opencse.evaluation.classifiers.settings import MODES, ClassifierSettings, Mode
from opencse.evaluation.classifiers.trained import Classifiers

pytestmark = pytest.mark.slow

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


@pytest.mark.parametrize(("mode", "n", "classes"), [("test", 71, 2), ("fast", 71, 2), ("fast", 64, 3)])
def test_nested_is_exactly_the_plain_loop(mode: Mode, n: int, classes: int) -> None:
    x, y = points(n, 6, classes, seed=n)
    settings = small(mode)
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


@pytest.mark.parametrize(("mode", "classes"), [("test", 4), ("fast", 2), ("fast", 4)])
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


@pytest.mark.parametrize(("mode", "hidden", "dropout"), [("fast", 4, 0.0), ("fast", 5, 0.3), ("test", 7, 0.3)])
def test_a_hidden_layer_is_exactly_the_plain_loop(mode: Mode, hidden: int, dropout: float) -> None:
    x, y = points(83, 5, 3, seed=2)
    settings = replace(small(mode), hidden=hidden, dropout=dropout)
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


@pytest.mark.parametrize("mode", ["test", "fast"])
def test_weights_are_those_of_the_plain_loop_with_the_mode_s_own_tenacity(mode: Mode) -> None:
    x, y = points(60, 4, 3, seed=5)
    settings = replace(MODES[mode], batch_size=9)
    train, dev = np.arange(41), np.arange(41, 60)
    got = fitter(x, y, settings).fit([Fold(train, dev), Fold(train, None)], [GRID, GRID])
    for r, l2 in enumerate(GRID):
        for f, check in enumerate([(x[dev], y[dev]), None]):
            plain = Plain(settings, l2, 3)
            assert got.accuracy[f, r] == plain.fit(x[train], y[train], check)
            layer = plain.best[0]
            assert isinstance(layer, nn.Linear)
            wanted = torch.cat([layer.weight, layer.bias[:, None]], dim=1).detach()
            torch.testing.assert_close(got.parameters[f][0][r], wanted, rtol=1e-10, atol=1e-10)
    weights = got.parameters[0][0]
    assert all((weights[a] - weights[a + 1]).abs().max() > 1e-6 for a in range(3))  # l2 does something


def test_the_last_round_begins_at_max_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = points(30, 3, 2, seed=1)
    train, dev = np.arange(20), np.arange(20, 30)
    checks: list[int] = []
    check = Classifiers._dev_accuracy

    def counted(self: Classifiers, parameters: Sequence[torch.Tensor], dev: Sequence[torch.Tensor]) -> NDArray[Any]:
        checks.append(len(dev))
        return check(self, parameters, dev)

    monkeypatch.setattr(Classifiers, "_dev_accuracy", counted)
    for max_epoch, rounds in ((7, 2), (8, 3), (9, 3)):  # of 4 passes
        patient = replace(small("test"), tenacity=1000, max_epoch=max_epoch)
        plain = Plain(patient, 1e-5, 2)
        plain.fit(x[train], y[train], (x[dev], y[dev]))
        checks.clear()
        fitter(x, y, patient).fit([Fold(train, dev)], [[1e-5]])
        assert len(checks) == plain.rounds == rounds


@pytest.mark.parametrize(("at_once", "count"), [(1, 5), (6000, 3), (1 << 30, 2)])
def test_how_many_are_trained_at_once_changes_nothing(at_once: int, count: int) -> None:
    x, y = points(71, 6, 2, seed=71)
    settings = small("fast")
    folds = [Fold(train, test) for train, test in folds_by_sklearn(x, y, 5)]
    wanted = fitter(x, y, settings).fit(folds, [GRID] * 5)
    made = fitter(x, y, settings, at_once)
    chunks = made._chunks(folds, len(GRID))
    assert sorted(f for chunk in chunks for f in chunk) == [0, 1, 2, 3, 4]
    assert len(chunks) == count  # training sets of 56 and 57: two sizes
    got = made.fit(folds, [GRID] * 5)
    assert np.array_equal(got.accuracy, wanted.accuracy)
    for one, other in zip(got.parameters, wanted.parameters, strict=True):
        torch.testing.assert_close(one[0], other[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("mode", ["test", "fast"])
def test_separable_classes_are_told_without_a_fault_and_random_labels_by_chance(mode: Mode) -> None:
    numbers = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 100)
    x = 5 * np.repeat(np.eye(3), 20, axis=1)[y] + 0.1 * numbers.normal(size=(300, 60))
    got = nested(Classifiers(x, y, MODES[mode]), y, 5, GRID)
    assert got.accuracy == 100
    assert got.dev_accuracy == 100
    assert np.array_equal(got.predicted, y)

    noise = numbers.normal(size=(1200, 4))
    coin = numbers.integers(0, 2, size=1200)
    random = nested(Classifiers(noise, coin, MODES[mode]), coin, 5, GRID)
    assert 44 < random.accuracy < 56


def test_within_half_a_point_of_logistic_regression_on_the_same_folds() -> None:
    x, y = points(2000, 24, 2, seed=3, noise=1.5)
    x = (3 * x).astype(np.float32)
    logistic = nested(Logistic(x, y), y, 5, (0.25, 4.0))
    assert 98 < logistic.accuracy < 99.8
    for mode in MODES:
        got = nested(Classifiers(x, y, MODES[mode]), y, 5, GRID)
        assert got.accuracy == pytest.approx(logistic.accuracy, abs=0.5)


def test_nobody_elses_random_numbers_are_touched() -> None:
    x, y = points(60, 4, 2, seed=5)
    settings = replace(small("fast"), hidden=3, dropout=0.2)
    numbers, state = torch.get_rng_state(), np.random.get_state()  # noqa: NPY002
    first = fitter(x, y, settings).fit([Fold(np.arange(60), None)], [[1e-4]])
    assert torch.equal(torch.get_rng_state(), numbers)
    after = np.random.get_state()  # noqa: NPY002
    assert isinstance(state, tuple)
    assert isinstance(after, tuple)
    assert np.array_equal(after[1], state[1])
    assert after[2] == state[2]
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    second = fitter(x, y, settings).fit([Fold(np.arange(60), None)], [[1e-4]])
    assert torch.equal(first.parameters[0][0], second.parameters[0][0])


def test_a_training_set_too_small_for_a_dev_share() -> None:
    x, y = points(19, 3, 2, seed=0)
    with pytest.raises(UserError, match=r"^19 sentences .* at least 20$"):
        fitter(x, y, MODES["fast"]).fit([Fold(np.arange(19), None)], [[1e-4]])
    x, y = points(20, 3, 2, seed=0)
    assert fitter(x, y, MODES["fast"]).fit([Fold(np.arange(20), None)], [[1e-4]]).accuracy[0, 0] in (0, 1)


def test_faults_of_the_caller() -> None:
    x, y = points(30, 3, 2, seed=0)
    with pytest.raises(ValueError, match="features"):
        Classifiers(x, y[:-1], MODES["fast"])
    with pytest.raises(ValueError, match="labels from"):
        Classifiers(x, y, MODES["fast"], classes=1)
    made = fitter(x, y, MODES["fast"])
    with pytest.raises(ValueError, match="folds"):
        made.fit([Fold(np.arange(20), None)], [[1e-4], [1e-3]])
    with pytest.raises(ValueError, match="without rows"):
        made.fit([Fold(np.arange(20), np.arange(0))], [[1e-4]])
    for wrong in ({"folds": 1}, {"batch_size": 0}, {"dropout": 1.0}, {"tenacity": -1}):
        with pytest.raises(ValueError):
            replace(MODES["fast"], **wrong)
