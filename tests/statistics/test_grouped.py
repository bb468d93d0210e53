"""The error of a mean difference over questions that come in groups."""

from __future__ import annotations

import math

import numpy as np
import pytest

from opencse.statistics.grouped import grouped_difference


def test_the_error_of_independent_questions_is_the_usual_one() -> None:
    random = np.random.default_rng(1)
    before, after = random.uniform(size=50), random.uniform(size=50)
    difference = grouped_difference(before, after, np.arange(50))
    differences = after - before
    assert difference.value == pytest.approx(differences.mean())
    assert difference.error == pytest.approx(differences.std(ddof=1) / math.sqrt(50))
    low, high = difference.interval
    assert (low + high) / 2 == pytest.approx(difference.value)


def test_copies_of_a_question_are_no_new_evidence() -> None:
    random = np.random.default_rng(2)
    before, after = random.uniform(size=30), random.uniform(size=30)
    once = grouped_difference(before, after, np.arange(30))
    thrice = grouped_difference(np.repeat(before, 3), np.repeat(after, 3), np.repeat(np.arange(30), 3))
    assert thrice.error == pytest.approx(once.error)
    assert grouped_difference(before, after, np.zeros(30, dtype=np.int64)).error == math.inf


def test_the_distance_between_kinds_is_no_error() -> None:
    random = np.random.default_rng(3)
    kinds, groups = np.repeat([0, 1], [20, 60]), np.arange(80)
    after = random.uniform(size=80) + 100 * kinds
    difference = grouped_difference(np.zeros(80), after, groups, kinds)
    assert difference.value == pytest.approx(after.mean())
    variances = [20 * after[:20].var(), 60 * after[20:].var()]
    assert difference.error == pytest.approx(math.sqrt(80 / 79 * sum(variances)) / 80)
    assert difference.error < 0.1 < grouped_difference(np.zeros(80), after, groups).error
