"""SentEval's two modes, and its three schemes to select a regularisation and measure test accuracy by any classifier.

The selected regularisation has the highest mean dev accuracy in percent, rounded to two decimals; the first of equals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from opencse.arrays import Floats, Integers, Vectors

Mode = Literal["test", "fast"]


@dataclass(frozen=True)
class ClassifierSettings:
    """The protocol of one fit and of the cross-validation around it (SentEval, Conneau and Kiela 2018).

    Attributes:
        optimizer: ``adam`` (rate 1e-3) or ``rmsprop`` (rate 1e-2), both at torch's defaults.
        batch_size: sentences per step; the last batch of a pass may be smaller.
        tenacity: dev checks without improvement that are allowed; the next one ends the fit. They are counted over
            the whole fit; an improvement does not reset the count.
        epoch_size: passes over the training set between two dev checks.
        folds: k of the cross-validation.
        max_epoch: no further round of ``epoch_size`` passes begins after more than this many.
        hidden: units of the hidden layer; 0: none, softmax regression.
        dropout: rate before the hidden layer's sigmoid.
        seed: of every fit's initial weights, held-out share, batches and dropout.
    """

    optimizer: Literal["adam", "rmsprop"]
    batch_size: int
    tenacity: int
    epoch_size: int
    folds: int
    max_epoch: int = 200
    hidden: int = 0
    dropout: float = 0.0
    seed: int = 1111


MODES: dict[Mode, ClassifierSettings] = {
    "test": ClassifierSettings("adam", batch_size=64, tenacity=5, epoch_size=4, folds=10),
    "fast": ClassifierSettings("rmsprop", batch_size=128, tenacity=3, epoch_size=2, folds=5),
}
"""``test``: what papers report; ``fast``: SimCSE's ``fasttest``, for checks during training."""

L2 = (1e-5, 1e-4, 1e-3, 1e-2)
"""The values of l2 that are tried."""


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


@dataclass(frozen=True, eq=False)
class Fits:
    """The classifiers fitted on F folds with R regularisations each.

    Attributes:
        accuracy: share (F, R) of the dev rows predicted correctly; used only for fits with dev rows.
        predict: of a fold, a regularisation (by their numbers) and rows: the class (n,) of each row by that fit.
    """

    accuracy: Floats
    predict: Callable[[int, int, Integers], Integers]


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
    """

    accuracy: float
    dev_accuracy: float
    selected: tuple[float, ...]
    predicted: Integers


def stratified_folds(labels: Integers, k: int) -> list[tuple[Integers, Integers]]:
    """Splits rows into train and test, one pair for each fold; each class has its share in each.

    The folds are the same as of scikit-learn's ``StratifiedKFold(k, shuffle=True, random_state=1111)``, as in SentEval.

    Args:
        labels: (n,), at least k of each class.
        k: number of folds, at least 2.
    """
    from sklearn.model_selection import StratifiedKFold  # type: ignore[import-untyped]

    folds: list[tuple[Integers, Integers]] = list(
        StratifiedKFold(k, shuffle=True, random_state=SEED).split(labels, labels)
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
    choices = [_choose(of_fold) for of_fold in accuracy]
    selected = tuple(grid[position] for position, _ in choices)
    refits = fitter.fit([Fold(train, None) for train, _ in outer], [[value] for value in selected])
    predicted = np.empty(len(labels), dtype=np.intp)
    shares = []
    for fold, (_, test) in enumerate(outer):
        predicted[test] = refits.predict(fold, 0, test)
        shares.append(_percent(predicted[test], labels[test]))
    return TestOutcome(
        accuracy=float(np.mean(shares)),
        dev_accuracy=float(np.mean([best for _, best in choices])),
        selected=selected,
        predicted=predicted,
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
    position, best = _choose(fitter.fit(folds, [grid] * k).accuracy)
    predicted = fitter.fit([Fold(train, None)], [[grid[position]]]).predict(0, 0, test)
    return TestOutcome(_percent(predicted, labels[test]), best, (grid[position],), predicted)


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
    position, best = _choose(fits.accuracy)
    predicted = fits.predict(0, position, test)
    return TestOutcome(_percent(predicted, labels[test]), best, (grid[position],), predicted)


def _choose(shares: Floats) -> tuple[int, float]:
    """Selects from dev shares (folds, |grid|): the position in the grid, and its dev accuracy."""
    scores = [round(100 * float(np.mean(column)), 2) for column in shares.T]
    position = int(np.argmax(scores))
    return position, scores[position]


def _percent(predicted: Integers, gold: Integers) -> float:
    return 100 * float(np.mean(predicted == gold))


ITERATIONS = 1000


class Logistic:
    r"""Fits multinomial logistic regression by L-BFGS; a larger C regularises less; the bias is not penalised.

    .. math:: \min_W \frac12 \|W\|^2 - C \sum_i \log p_{i, y_i}

    There is no early stopping, so dev rows only measure, and a fit without them uses all its rows. scikit-learn's
    default of 100 iterations, which SentEval uses, often ends short of the optimum; here it is 1,000.
    """

    def __init__(self, features: Vectors, labels: Integers) -> None:
        """``features``: (n, d); ``labels``: (n,)."""
        self.features = features
        self.labels = labels

    def fit(self, folds: Sequence[Fold], regularisation: Sequence[Sequence[float]]) -> Fits:
        """Fits one classifier after another; see ``Fitter``."""
        from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

        models: list[list[LogisticRegression]] = []
        accuracy = np.full((len(folds), len(regularisation[0])), np.nan)
        for f, (fold, values) in enumerate(zip(folds, regularisation, strict=True)):
            models.append([])
            for r, c in enumerate(values):
                model = LogisticRegression(C=c, max_iter=ITERATIONS, random_state=SEED)
                model.fit(self.features[fold.train], self.labels[fold.train])
                models[f].append(model)
                if fold.dev is not None:
                    accuracy[f, r] = np.mean(model.predict(self.features[fold.dev]) == self.labels[fold.dev])

        def predict(fold: int, regularisation: int, rows: Integers) -> Integers:
            predicted: Integers = models[fold][regularisation].predict(self.features[rows])
            return predicted

        return Fits(accuracy, predict)
