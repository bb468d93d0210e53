"""SentEval's three schemes to select a regularisation and measure test accuracy, for any classifier.

The selected regularisation has the highest mean dev accuracy in percent, rounded to two decimals; the first of equals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from opencse.arrays import Floats, Integers
from opencse.errors import UserError

Scheme = Literal["nested", "kfold", "split"]
SEED = 1111


@dataclass(frozen=True, eq=False)
class Fold:
    """The rows that a classifier is fitted on.

    Attributes:
        train: rows (n,) of the features.
        dev: rows by which the fit is stopped; None: a random 5 % of ``train``, which are then not trained on.
    """

    train: Integers
    dev: Integers | None


class Fits(Protocol):
    """The classifiers fitted on F folds with R regularisations each.

    Attributes:
        accuracy: share (F, R) of the dev rows predicted correctly; used only for fits with dev rows.
    """

    accuracy: Floats

    def predict(self, fold: int, regularisation: int, rows: Integers) -> Integers:
        """Predicts the class (n,) of each of the ``rows`` by that fit."""


class Fitter(Protocol):
    """Fits classifiers on rows of some features."""

    def fit(self, folds: Sequence[Fold], regularisation: Sequence[Sequence[float]]) -> Fits:
        """Fits one classifier for each fold and each of its regularisations (F, R)."""


@dataclass(frozen=True, eq=False)
class TestOutcome:
    """The test accuracy of a scheme, and what it selected.

    Attributes:
        accuracy: percent of the test rows predicted correctly; for ``nested`` the mean over the outer folds.
        dev_accuracy: the highest dev accuracy of the grid, percent, rounded to two decimals as for the selection; for
            ``nested`` the mean over the outer folds.
        selected: the regularisation, one for each outer fold (``kfold`` and ``split``: one).
        predicted: the class (n,) of each test row; for ``nested`` of every row.
        fits: number of classifiers fitted.
    """

    accuracy: float
    dev_accuracy: float
    selected: tuple[float, ...]
    predicted: Integers
    fits: int


def stratified_folds(labels: Integers, k: int, seed: int = SEED) -> list[tuple[Integers, Integers]]:
    """Splits rows into train and test, one pair for each fold; each class has its share in each.

    The folds are those of scikit-learn's ``StratifiedKFold(k, shuffle=True, random_state=seed)``, as in SentEval.

    Args:
        labels: (n,).
        k: number of folds, at least 2.
        seed: of the shuffle.

    Raises:
        UserError: for a class of fewer than k rows.
    """
    from sklearn.model_selection import StratifiedKFold  # type: ignore[import-untyped]

    classes, counts = np.unique(labels, return_counts=True)
    if counts.min() < k:
        raise UserError(
            f"class {classes[counts.argmin()]} has {counts.min()} sentences, too few for {k} folds; "
            "add some, or drop the class"
        )
    folds: list[tuple[Integers, Integers]] = list(
        StratifiedKFold(k, shuffle=True, random_state=seed).split(labels, labels)
    )
    return folds


def nested(fitter: Fitter, labels: Integers, k: int, grid: Sequence[float]) -> TestOutcome:
    """Runs k-fold cross-validation within k-fold cross-validation: k k |grid| + k fits (MR, CR, SUBJ, MPQA).

    For each outer fold the regularisation is selected by inner folds of its training rows, and a classifier fitted on
    all of these is tested on the fold. All inner fits are requested at once.

    Args:
        fitter: fits classifiers on rows of the features.
        labels: (n,) classes of all rows.
        k: number of folds, outer and inner.
        grid: regularisations.
    """
    outer = stratified_folds(labels, k)
    inner = [Fold(train[part], train[rest]) for train, _ in outer for part, rest in stratified_folds(labels[train], k)]
    accuracy = fitter.fit(inner, [grid] * len(inner)).accuracy.reshape(k, k, len(grid))
    choices = [_choose(of_fold, grid) for of_fold in accuracy]
    refits = fitter.fit([Fold(train, None) for train, _ in outer], [[choice.value] for choice in choices])
    predicted = np.empty(len(labels), dtype=np.intp)
    shares = []
    for fold, (_, test) in enumerate(outer):
        predicted[test] = refits.predict(fold, 0, test)
        shares.append(_percent(predicted[test], labels[test]))
    return TestOutcome(
        accuracy=float(np.mean(shares)),
        dev_accuracy=float(np.mean([choice.accuracy for choice in choices])),
        selected=tuple(choice.value for choice in choices),
        predicted=predicted,
        fits=k * k * len(grid) + k,
    )


def kfold(
    fitter: Fitter, labels: Integers, train: Integers, test: Integers, k: int, grid: Sequence[float]
) -> TestOutcome:
    """Runs k-fold cross-validation on the training rows, then one fit and test: k |grid| + 1 fits (TREC, MRPC).

    Args:
        fitter: fits classifiers on rows of the features.
        labels: (n,) classes of all rows.
        train: rows to select and fit on.
        test: rows to test on.
        k: number of folds.
        grid: regularisations.
    """
    folds = [Fold(train[part], train[rest]) for part, rest in stratified_folds(labels[train], k)]
    choice = _choose(fitter.fit(folds, [grid] * k).accuracy, grid)
    refit = fitter.fit([Fold(train, None)], [[choice.value]])
    return _tested(refit, 0, labels, test, choice, k * len(grid) + 1)


def split(
    fitter: Fitter, labels: Integers, train: Integers, dev: Integers, test: Integers, grid: Sequence[float]
) -> TestOutcome:
    """Selects the regularisation and stops fits by a dev set: |grid| fits (SST2, probing).

    SentEval fits the selected one again from the same seed on the same rows, which gives the same classifier, so the
    first is tested here.

    Args:
        fitter: fits classifiers on rows of the features.
        labels: (n,) classes of all rows.
        train: rows to fit on.
        dev: rows to select by.
        test: rows to test on.
        grid: regularisations.
    """
    fits = fitter.fit([Fold(train, dev)], [grid])
    choice = _choose(fits.accuracy, grid)
    return _tested(fits, choice.position, labels, test, choice, len(grid))


@dataclass(frozen=True)
class _Choice:
    position: int
    value: float
    accuracy: float


def _choose(shares: Floats, grid: Sequence[float]) -> _Choice:
    """Selects from dev shares (folds, |grid|)."""
    scores = [round(100 * float(np.mean(column)), 2) for column in shares.T]
    position = int(np.argmax(scores))
    return _Choice(position, grid[position], scores[position])


def _tested(fits: Fits, position: int, labels: Integers, test: Integers, choice: _Choice, count: int) -> TestOutcome:
    predicted = fits.predict(0, position, test)
    return TestOutcome(_percent(predicted, labels[test]), choice.accuracy, (choice.value,), predicted, count)


def _percent(predicted: Integers, gold: Integers) -> float:
    return 100 * float(np.mean(predicted == gold))
