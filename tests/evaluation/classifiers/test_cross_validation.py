from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from opencse.errors import UserError
from opencse.evaluation.classifiers.cross_validation import Fold, kfold, nested, split, stratified_folds

GRID = (1.0, 2.0, 3.0)
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

    def fit(self, folds: Sequence[Fold], regularisation: Sequence[Sequence[float]]) -> "ToldFits":
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
        ((0.5, 0.7, 0.6), 2.0, 70.0),
        ((0.7, 0.7, 0.7), 1.0, 70.0),
        ((0.500001, 0.50002, 0.50004), 1.0, 50.0),  # equal after rounding to two decimals
        ((0.50001, 0.50002, 0.50016), 3.0, 50.02),
    ],
)
def test_the_first_highest_rounded_mean_is_chosen(means: tuple[float, ...], chosen: float, dev: float) -> None:
    labels = np.arange(30) % 2
    spread = np.array([means, means, means]) + np.array([[-0.1], [0.0], [0.1]])
    by_fold = kfold(Told(spread), labels, np.arange(24), np.arange(24, 30), 3, GRID)
    by_dev = split(Told(np.array([means])), labels, np.arange(12), np.arange(12, 24), np.arange(24, 30), GRID)
    for got in (by_fold, by_dev):
        assert got.selected == (chosen,)
        assert got.dev_accuracy == dev
        assert np.array_equal(got.predicted, np.arange(24, 30) % chosen)
        assert got.accuracy == pytest.approx(100 * np.mean(np.arange(24, 30) % chosen == labels[24:]))


def test_kfold_refits_on_the_training_rows_alone_and_split_does_not_refit() -> None:
    labels = np.arange(30) % 2
    told = Told(np.array([0.5, 0.7, 0.6]))
    assert kfold(told, labels, np.arange(5, 24), np.arange(24, 30), 3, GRID).fits == 10
    (folds, grid), (refits, again) = told.asked
    assert grid == [list(GRID)] * 3
    assert again == [[2.0]]
    checked: list[int] = []
    for fold in folds:
        assert fold.dev is not None
        assert sorted([*fold.train, *fold.dev]) == list(range(5, 24))
        checked += fold.dev.tolist()
    assert sorted(checked) == list(range(5, 24))
    assert refits[0].dev is None
    assert list(refits[0].train) == list(range(5, 24))
    told = Told(np.array([0.5, 0.7, 0.6]))
    assert split(told, labels, np.arange(9), np.arange(9, 20), np.arange(20, 30), GRID).fits == 3
    assert len(told.asked) == 1


def test_nested_tests_every_row_once_and_never_looks_at_it_before() -> None:
    labels = np.arange(40) % 2
    told = Told(np.random.default_rng(0).random((9, 3)))
    got = nested(told, labels, 3, GRID)
    (inner, _), (refits, regularisation) = told.asked
    assert len(inner) == 9
    assert [fold.dev for fold in refits] == [None] * 3
    assert got.selected == tuple(values[0] for values in regularisation)
    assert len(set(got.selected)) > 1
    tested = []
    for outer, (fold, (value,)) in enumerate(zip(refits, regularisation, strict=True)):
        test = sorted(set(range(40)) - set(fold.train.tolist()))
        tested += test
        for one in inner[3 * outer : 3 * outer + 3]:
            assert one.dev is not None
            assert sorted([*one.train, *one.dev]) == sorted(fold.train)
        assert np.array_equal(got.predicted[test], np.array(test) % value)
        mean = np.resize(told.shares, (9, 3))[3 * outer : 3 * outer + 3].mean(axis=0)
        assert value == GRID[int(mean.argmax())]
    assert sorted(tested) == list(range(40))
    shares = [
        np.mean([got.predicted[row] == labels[row] for row in set(range(40)) - set(fold.train.tolist())])
        for fold in refits
    ]
    assert got.accuracy == pytest.approx(100 * np.mean(shares))
