"""The weight of a hybrid search as a value."""

from __future__ import annotations

from opencse.modules.hybrid_weight import DEFAULT_WEIGHT, HybridWeight


def test_without_a_fit_it_is_the_default_and_says_so() -> None:
    assert HybridWeight() == HybridWeight(DEFAULT_WEIGHT, "the default")
    assert str(HybridWeight()) == "0.50 (the default)"
