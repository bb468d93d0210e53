from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from opencse.evaluation.pairs import ScoredPairs
from opencse.export.quantized import loss_of
from opencse.statistics.correlation import cosine_of_rows

TEXTS = [f"text {number}" for number in range(20)]
PAIRS = ScoredPairs("pairs", np.arange(10.0), TEXTS[:10], TEXTS[10:])


def exact(texts: Sequence[str]) -> NDArray[np.float32]:
    rows = [np.random.default_rng(int(text.split()[1])).standard_normal(8) for text in texts]
    return np.array(rows, dtype=np.float32)


def rounded(texts: Sequence[str]) -> NDArray[np.float32]:
    return np.round(exact(texts))


def test_without_a_difference_nothing_is_lost() -> None:
    loss = loss_of(exact, exact, TEXTS, PAIRS)
    assert (loss.texts, loss.pairs) == (20, "pairs (10 pairs)")
    assert loss.cosine == pytest.approx(1)
    assert loss.ranking == pytest.approx(100)
    assert loss.int8 == loss.float32


def test_the_loss_of_rounding() -> None:
    loss = loss_of(exact, rounded, TEXTS, PAIRS)
    cosines = cosine_of_rows(exact(TEXTS), rounded(TEXTS))
    assert loss.cosine == pytest.approx(cosines.mean())
    assert loss.worst_cosine == pytest.approx(cosines.min())
    assert loss.worst_cosine < loss.cosine < 1
    assert loss.ranking < 100
    first, second = loss.lines()
    assert f"{loss.cosine:.4f} on average" in first
    assert f"{loss.int8 - loss.float32:+.2f}" in second
