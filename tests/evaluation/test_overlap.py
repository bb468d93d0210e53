"""The words two texts share, against a loop that crosses them out one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencse.evaluation.overlap import bag_f1

bags = st.lists(st.sampled_from("abcd"), max_size=8)


def naive(first: list[str], second: list[str]) -> float:
    left, shared = list(second), 0
    for word in first:
        if word in left:
            left.remove(word)
            shared += 1
    precision, recall = shared / len(first) if first else 0.0, shared / len(second) if second else 0.0
    return 2 * precision * recall / (precision + recall) if shared else 0.0


@given(first=bags, second=st.lists(st.sampled_from("abcd"), min_size=1, max_size=8))
def test_f1_is_the_harmonic_mean_of_precision_and_recall(first: list[str], second: list[str]) -> None:
    assert bag_f1(first, second) == pytest.approx(naive(first, second))
    assert bag_f1(second, first) == bag_f1(first, second)
    assert bag_f1(sorted(first), second) == bag_f1(first, second)
    assert bag_f1(second, second) == 1.0
