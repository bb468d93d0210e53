"""The modes of SentEval, and how they are named in tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from opencse.evaluation.classifiers.settings import MODES, ClassifierSettings, mode_in_words


def test_modes_are_senteval_s() -> None:
    assert MODES["test"] == ClassifierSettings("adam", 64, 5, 4, 10, max_epoch=200, hidden=0, dropout=0, seed=1111)
    assert MODES["fast"] == ClassifierSettings("rmsprop", 128, 3, 2, 5, max_epoch=200, hidden=0, dropout=0, seed=1111)


def test_settings_out_of_range_are_refused() -> None:
    for wrong in ({"dropout": 1.0}, {"folds": 1}, {"optimizer": "sgd"}):
        with pytest.raises(ValueError, match=r"expected|got"):
            replace(MODES["test"], **wrong)


def test_the_usual_classifier_is_not_named() -> None:
    assert mode_in_words("fast", "softmax", "softmax") == "fast"
    assert mode_in_words("test", "logistic", "softmax") == "test, logistic"
