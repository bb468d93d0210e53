"""Logistic regression is scikit-learn's on the rows of each fold."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

from opencse.evaluation.classifiers.cross_validation import Fold
from opencse.evaluation.classifiers.logistic import Logistic


def test_each_fold_and_regularisation_is_fitted_by_scikit_learn() -> None:
    random = np.random.default_rng(0)
    features, labels = random.normal(size=(60, 4)), random.integers(3, size=60)
    features[:, 0] += labels
    folds = [Fold(np.arange(40), np.arange(40, 60)), Fold(np.arange(20, 60), None)]
    fits = Logistic(features, labels).fit(folds, [[0.5, 2.0], [1.0, 4.0]])
    for number, fold in enumerate(folds):
        for position, strength in enumerate([(0.5, 2.0), (1.0, 4.0)][number]):
            model = LogisticRegression(C=strength, max_iter=1000).fit(features[fold.train], labels[fold.train])
            rows = np.arange(0, 60, 7)
            assert (fits.predict(number, position, rows) == model.predict(features[rows])).all()
            if fold.dev is not None:
                assert fits.accuracy[number, position] == np.mean(model.predict(features[fold.dev]) == labels[fold.dev])
    assert np.isnan(fits.accuracy[1]).all()
