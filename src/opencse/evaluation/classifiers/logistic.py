"""Classifies by scikit-learn's logistic regression, SentEval's alternative without PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from opencse.arrays import Floats, Integers, Vectors
from opencse.evaluation.classifiers.cross_validation import Fold

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

SEED = 1111
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

    def fit(self, folds: Sequence[Fold], regularisation: Sequence[Sequence[float]]) -> LogisticFits:
        """Fits one classifier after another; see ``Fitter``."""
        from sklearn.linear_model import LogisticRegression

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
        return LogisticFits(accuracy, models, self.features)


class LogisticFits:
    """The fitted logistic regressions; see ``Fits``."""

    def __init__(
        self,
        accuracy: Floats,
        models: list[list[LogisticRegression]],
        features: Vectors,
    ) -> None:
        """``models``: by fold and regularisation."""
        self.accuracy = accuracy
        self.models = models
        self._features = features

    def predict(self, fold: int, regularisation: int, rows: Integers) -> Integers:
        """See ``Fits``."""
        predicted: Integers = self.models[fold][regularisation].predict(self._features[rows])
        return predicted
