"""SentEval's three ways of choosing a regularisation and taking a test accuracy, for any classifier.

The regularisation is the one of the highest mean dev accuracy in percent, rounded to two decimals; the first of equals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError

Rows = NDArray[np.intp]
Scheme = Literal["nested", "kfold", "split"]
SEED = 1111


@dataclass(frozen=True, eq=False)
class Fold:
    """What a classifier is fitted on.

    Attributes:
        train: rows (n,) of the features.
        dev: rows the fit is stopped by; None: a random 5 % of ``train``, which are then not trained on.
    """

    train: Rows
    dev: Rows | None


class Fits(Protocol):
    """Classifiers fitted on F folds with R regularisations each.

    Attributes:
        accuracy: share (F, R) of the dev rows told right; read only of fits that had dev rows.
    """

    accuracy: NDArray[np.float64]

    def predict(self, fold: int, regularisation: int, rows: Rows) -> NDArray[np.intp]:
        """The class (n,) of each of the ``rows`` by that fit."""


class Fitter(Protocol):
    """What fits classifiers on the rows of some features."""

    def fit(self, folds: Sequence[Fold], regularisation: Sequence[Sequence[float]]) -> Fits:
        """One fit for each fold and each of its regularisations (F, R)."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a protocol found.

    Attributes:
        accuracy: percent of the test rows told right; for ``nested`` the mean over the outer folds.
        dev_accuracy: the highest dev accuracy of the grid, percent, rounded to two decimals as the choice was; for
            ``nested`` the mean over the outer folds.
        chosen: the regularisation chosen, one an outer fold (``kfold`` and ``split``: one).
        predicted: the class (n,) of each test row; for ``nested`` of every row.
        fits: how many classifiers were fitted.
    """

    accuracy: float
    dev_accuracy: float
    chosen: tuple[float, ...]
    predicted: NDArray[np.intp]
    fits: int


def stratified_folds(labels: NDArray[np.intp], k: int, seed: int = SEED) -> list[tuple[Rows, Rows]]:
    """Pairs of train and test rows, one a fold; each class has its share in each.

    Those of scikit-learn's ``StratifiedKFold(k, shuffle=True, random_state=seed)``, as in SentEval.

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
    folds: list[tuple[Rows, Rows]] = list(StratifiedKFold(k, shuffle=True, random_state=seed).split(labels, labels))
    return folds


def nested(fitter: Fitter, labels: NDArray[np.intp], k: int, grid: Sequence[float]) -> Outcome:
    """k-fold cross-validation within k-fold cross-validation: k k |grid| + k fits (MR, CR, SUBJ, MPQA).

    For each outer fold the regularisation is chosen by inner folds of its training rows, and a classifier fitted on
    all of these is tested on the fold. All inner fits are asked for at once.

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
    return Outcome(
        accuracy=float(np.mean(shares)),
        dev_accuracy=float(np.mean([choice.accuracy for choice in choices])),
        chosen=tuple(choice.value for choice in choices),
        predicted=predicted,
        fits=k * k * len(grid) + k,
    )


def kfold(fitter: Fitter, labels: NDArray[np.intp], train: Rows, test: Rows, k: int, grid: Sequence[float]) -> Outcome:
    """k-fold cross-validation on the training rows, one fit on all of them, one test: k |grid| + 1 fits (TREC, MRPC).

    Args:
        fitter: fits classifiers on rows of the features.
        labels: (n,) classes of all rows.
        train: rows to choose and fit on.
        test: rows to test on.
        k: number of folds.
        grid: regularisations.
    """
    folds = [Fold(train[part], train[rest]) for part, rest in stratified_folds(labels[train], k)]
    choice = _choose(fitter.fit(folds, [grid] * k).accuracy, grid)
    refit = fitter.fit([Fold(train, None)], [[choice.value]])
    return _tested(refit, 0, labels, test, choice, k * len(grid) + 1)


def split(
    fitter: Fitter, labels: NDArray[np.intp], train: Rows, dev: Rows, test: Rows, grid: Sequence[float]
) -> Outcome:
    """The regularisation is chosen, and fits are stopped, by a dev set: |grid| fits (SST2, probing).

    SentEval fits the chosen one anew from the same seed on the same rows, which is the same classifier again, so that
    one is tested here.

    Args:
        fitter: fits classifiers on rows of the features.
        labels: (n,) classes of all rows.
        train: rows to fit on.
        dev: rows to choose by.
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


def _choose(shares: NDArray[np.float64], grid: Sequence[float]) -> _Choice:
    """Of dev shares (folds, |grid|)."""
    scores = [round(100 * float(np.mean(column)), 2) for column in shares.T]
    position = int(np.argmax(scores))
    return _Choice(position, grid[position], scores[position])


def _tested(fits: Fits, position: int, labels: NDArray[np.intp], test: Rows, choice: _Choice, count: int) -> Outcome:
    predicted = fits.predict(0, position, test)
    return Outcome(_percent(predicted, labels[test]), choice.accuracy, (choice.value,), predicted, count)


def _percent(predicted: NDArray[np.intp], gold: NDArray[np.intp]) -> float:
    return 100 * float(np.mean(predicted == gold))
