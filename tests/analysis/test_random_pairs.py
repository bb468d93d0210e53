"""Quantiles of random pairs: exact for few texts, near the whole for many; percentiles by counting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError

from fuzzing import examples
from opencse.analysis.random_pairs import PERCENTS, RandomPairs, random_pairs
from opencse.errors import UserError

Vectors = NDArray[np.float32]


def some(n: int, dimension: int = 8) -> Vectors:
    return np.asarray(np.random.default_rng(0).normal(0.5, 1, size=(n, dimension)), dtype=np.float32)


def cosines_of(vectors: Vectors) -> list[float]:
    rows = vectors.astype(np.float64)
    return [
        float(rows[i] @ rows[j] / np.sqrt((rows[i] @ rows[i]) * (rows[j] @ rows[j])))
        for i in range(len(rows))
        for j in range(i + 1, len(rows))
    ]


def test_few_texts_have_all_their_pairs() -> None:
    vectors = some(25)
    found = random_pairs(vectors, pairs=300)
    cosines = cosines_of(vectors)
    assert (found.texts, found.pairs, found.exact) == (25, 300, True)
    assert len(found.percents) == 120 == len(set(PERCENTS))
    for percent in (0, 1, 5, 25, 50, 75, 95, 99, 99.9, 100):
        assert found.quantile(percent) == pytest.approx(np.quantile(cosines, percent / 100), abs=1e-12)
    assert list(found.quantiles_by_percent()) == [1, 5, 25, 50, 75, 95, 99, 99.9]
    for value in (*cosines[:20], -0.3, 0.2, 0.7):
        lower = 100 * sum(other < value for other in cosines) / 300
        assert found.percentile_of(value) == pytest.approx(lower, abs=0.7), "a step is a third of a percent"
    assert found.percentile_of(min(cosines) - 0.01) == found.percentile_of(-1.0) == 0
    assert found.percentile_of(max(cosines) + 0.01) == 100


def test_many_texts_have_some_pairs_never_with_themselves() -> None:
    vectors = some(200)
    whole, drawn = random_pairs(vectors, pairs=19_900), random_pairs(vectors, pairs=19_899)
    assert (whole.exact, drawn.exact, drawn.pairs) == (True, False, 19_899)
    assert drawn.quantile(50) == pytest.approx(whole.quantile(50), abs=0.02)
    assert drawn.quantile(100) < 0.999, "a text with itself has cosine 1"
    assert drawn == random_pairs(vectors, pairs=19_899)
    assert drawn != random_pairs(vectors, pairs=19_899, seed=1)
    two = random_pairs(some(2), pairs=1)
    assert (two.exact, two.pairs) == (True, 1)


def test_draws_are_even_over_ordered_pairs() -> None:
    # The frame's vector 0 alone is near vector 1: 2 of 30 ordered pairs.
    frame = np.eye(6, dtype=np.float32)
    frame[1] = frame[0] + 0.1 * frame[1]
    found = random_pairs(np.concatenate([frame, -frame]), pairs=60)
    assert not found.exact
    assert found.quantile(0) < -0.99
    many = random_pairs(np.repeat(frame, 100, axis=0), pairs=100_000)
    # Cosine above 0.5: both of the first two vectors (1/3 of texts each side), or the same one of the other four.
    expected = 100 * (1 / 9 + 4 / 36)
    assert 100 - many.percentile_of(0.5) == pytest.approx(expected, abs=1)


def test_percentile_counts_what_is_strictly_lower() -> None:
    found = RandomPairs(
        texts=9, pairs=9, exact=True, seed=0, percents=[0, 25, 50, 75, 100], cosines=[-0.5, 0.1, 0.1, 0.1, 0.9]
    )
    assert found.percentile_of(0.1) == 25
    assert found.percentile_of(0.1 + 1e-9) == pytest.approx(75)
    assert found.percentile_of(0.5) == pytest.approx(87.5)
    assert found.percentile_of(-0.2) == pytest.approx(12.5)
    assert (found.percentile_of(-0.5), found.percentile_of(0.9), found.percentile_of(0.91)) == (0, 100, 100)
    one = RandomPairs(texts=2, pairs=1, exact=True, seed=0, percents=[0, 100], cosines=[1, 1])
    assert (one.percentile_of(1.0), one.percentile_of(0.7)) == (0, 0)
    with pytest.raises(UserError, match="not NaN"):
        one.percentile_of(float("nan"))
    for percent in (-0.1, 100.1, float("nan")):
        with pytest.raises(UserError, match="from 0 to 100"):
            one.quantile(percent)


@examples(30)
@given(st.floats(0, 100), st.floats(-1, 1))
def test_percentile_undoes_quantile_and_rises(percent: float, cosine: float) -> None:
    found = random_pairs(some(40))
    assert found.percentile_of(found.quantile(percent)) == pytest.approx(percent, abs=1e-6)
    assert found.percentile_of(cosine) <= found.percentile_of(min(1.0, cosine + 0.1))


def test_wrong_input_is_refused() -> None:
    with pytest.raises(UserError, match="1 vector"):
        random_pairs(some(1))
    with pytest.raises(UserError, match="pairs is the number of random pairs, at least 1, not 0"):
        random_pairs(some(3), pairs=0)
    with pytest.raises(UserError, match="NaN or infinite"):
        random_pairs(np.array([[1.0], [np.nan]]))
    good = {"texts": 2, "pairs": 1, "exact": True, "seed": 0}
    for percents, cosines in (([0, 100], [1, 0]), ([0, 50], [0, 1]), ([1, 100], [0, 1]), ([0, 100], [0]), ([], [])):
        with pytest.raises(ValidationError, match="must"):
            RandomPairs.model_validate({**good, "percents": percents, "cosines": cosines})
