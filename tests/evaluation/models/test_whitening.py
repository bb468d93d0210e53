from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from fuzzing import examples
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.evaluation.models import whitening as module
from opencse.evaluation.models.whitening import Whitening, whitened


def drawn(n: int, d: int, seed: int = 0) -> NDArray[np.float64]:
    """Vectors far from the origin with correlated coordinates of very different variance."""
    rng = np.random.default_rng(seed)
    scales = np.diag(np.logspace(0.5, -1, d))
    return rng.normal(size=(n, d)) @ scales @ rng.normal(size=(d, d)) + rng.normal(size=d) * 5


def naive_covariance(x: NDArray[np.floating]) -> NDArray[np.float64]:
    n, d = x.shape
    mean = [sum(float(x[i, a]) for i in range(n)) / n for a in range(d)]
    return np.array(
        [
            [sum((x[i, a] - mean[a]) * (x[i, b] - mean[b]) for i in range(n)) / (n - 1) for b in range(d)]
            for a in range(d)
        ]
    )


def cosines(x: NDArray[np.floating]) -> NDArray[np.float64]:
    unit = x.astype(np.float64) / np.linalg.norm(x.astype(np.float64), axis=1, keepdims=True)
    result: NDArray[np.float64] = unit @ unit.T
    return result


def test_what_it_was_fitted_on_comes_out_white(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 7)
    x = drawn(40, 5)
    assert np.abs(naive_covariance(x) - np.eye(5)).max() > 1
    whitening = Whitening.fit(x)
    out = whitening.apply(x)
    assert out.dtype == np.float32
    assert (out.shape, whitening.dropped, whitening.dimension) == ((40, 5), 0, 5)
    np.testing.assert_allclose(out.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(naive_covariance(out), np.eye(5), atol=1e-5)


def test_equals_the_formula() -> None:
    """x~ = (x - mu) U diag(lambda)^(-1/2) by a singular value decomposition of the covariance, up to signs."""
    x = drawn(50, 4)
    left, values, _ = np.linalg.svd(naive_covariance(x))
    expected = (x - x.mean(axis=0)) @ left / np.sqrt(values)
    found = Whitening.fit(x).apply(x)
    np.testing.assert_allclose(np.abs(found), np.abs(expected), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(cosines(found), cosines(expected), atol=1e-5)


def test_known_answer() -> None:
    x = np.array([[3.0, 1], [3, -1], [-1, 1], [-1, -1]], np.float32)  # mean (1, 0); variances 16/3 and 4/3
    whitening = Whitening.fit(x)
    np.testing.assert_allclose(whitening.mean, [1, 0])
    np.testing.assert_allclose(whitening.matrix, np.diag([3 / 16, 3 / 4]) ** 0.5, atol=1e-12)
    np.testing.assert_allclose(whitening.apply(np.array([[5.0, 2]])), [[4 * (3 / 16) ** 0.5, 3**0.5]], rtol=1e-6)


def test_fewer_dimensions_are_the_first_columns() -> None:
    x = drawn(60, 6)
    whole, short = Whitening.fit(x), Whitening.fit(x, 2)
    np.testing.assert_array_equal(short.matrix, whole.matrix[:, :2])
    assert short.apply(x).shape == (60, 2)
    kept = x @ np.linalg.svd(naive_covariance(x))[0][:, :2]
    assert kept.var() > 0.5 * x.var(axis=0).sum() / 2, "those of the largest variance"
    assert short.dropped == 0


@examples(30)
@given(st.integers(0, 99), st.floats(-3, 3), st.floats(0.01, 100))
def test_shift_and_scale_of_the_vectors_change_nothing(seed: int, shift: float, scale: float) -> None:
    x = drawn(30, 4, seed)
    np.testing.assert_allclose(
        Whitening.fit(x * scale + shift).apply(x * scale + shift), Whitening.fit(x).apply(x), atol=1e-4
    )


def test_directions_without_variance_are_dropped() -> None:
    x = drawn(50, 6).astype(np.float32)
    x[:, 3] = 7
    x[:, 5] = 2 * x[:, 0] - x[:, 1]
    whitening = Whitening.fit(x)
    assert (whitening.dropped, whitening.dimension) == (2, 4)
    np.testing.assert_allclose(naive_covariance(whitening.apply(x)), np.eye(4), atol=1e-4)
    with pytest.raises(UserError, match="50 vectors of 6 dimensions vary along 4") as caught:
        Whitening.fit(x, 5)
    assert "\n" not in str(caught.value)
    assert Whitening.fit(x, 4).dimension == 4


def test_texts_that_become_equally_similar_are_reported() -> None:
    vectors = np.random.default_rng(3).normal(size=(6, 8))
    few = Whitening.fit(vectors)
    unit = few.apply(vectors) / np.linalg.norm(few.apply(vectors), axis=1, keepdims=True)
    np.testing.assert_allclose((unit @ unit.T)[~np.eye(6, dtype=bool)], -1 / 5, atol=1e-5)
    (doubt,) = few.doubts(6)
    assert doubt.startswith(
        "warning    whitening with 5 dimensions makes these 6 texts equally similar; fit it on many"
    )
    assert Whitening.fit(vectors, 4).doubts(6) == []


def test_how_much_the_last_direction_is_stretched() -> None:
    scale = np.array([100.0, 50.0, 10.0, 1.0, 0.01])
    random = np.random.default_rng(0)
    x = np.linalg.qr(random.normal(size=(400, 5)))[0]
    x = (x - x.mean(axis=0)) * scale
    found = Whitening.fit(x)
    assert found.stretch == pytest.approx(10_000, rel=0.2)
    assert found.within(1.5) == 1
    assert found.within(200) == 4
    assert Whitening.fit(x, found.within(200)).stretch < 200


def test_fewer_vectors_than_dimensions() -> None:
    x = drawn(5, 8)
    whitening = Whitening.fit(x)
    assert (whitening.dimension, whitening.dropped) == (4, 4)
    out = whitening.apply(x)
    np.testing.assert_allclose(naive_covariance(out), np.eye(4), atol=1e-5)


@pytest.mark.parametrize("x", [np.ones((4, 3)), np.zeros((0, 3)), np.ones((1, 3)), np.ones((4, 0))])
def test_vectors_that_do_not_vary(x: NDArray[np.float64]) -> None:
    with pytest.raises(UserError, match="vary along 0; give more texts"):
        Whitening.fit(x)


def test_refusals() -> None:
    bad = drawn(9, 3)
    bad[2, 1] = np.nan
    with pytest.raises(UserError, match="NaN or infinite"):
        Whitening.fit(bad)
    with pytest.raises(UserError, match="at least 1 dimension, not 0"):
        Whitening.fit(drawn(9, 3), 0)
    with pytest.raises(ValueError, match=r"\(9,\)"):
        Whitening.fit(drawn(9, 3)[:, 0])


def test_far_from_the_origin_in_float32() -> None:
    """Moments are of float64: a mean a thousand times the spread does not drown it."""
    x = (drawn(3000, 3) + 1000).astype(np.float32)
    np.testing.assert_allclose(np.cov(Whitening.fit(x).apply(x).T, dtype=np.float64), np.eye(3), atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [None, 12])
def test_a_whitened_encoder_saves_and_loads_with_the_same_vectors(
    encoder: SentenceEncoder, sentences: list[str], tmp_path: Path, dimension: int | None
) -> None:
    fitted, others = sentences[:300], [*sentences[300:330], "A."]
    whitening = Whitening.fit(encoder.encode(fitted), dimension)
    assert whitening.dropped == 1, "the direction that LayerNorm leaves without variance"
    made = whitened(encoder, whitening)
    expected = whitening.apply(encoder.encode(others))
    assert expected.std() > 0.3
    assert made.dimension == whitening.dimension == (dimension or 31)
    np.testing.assert_allclose(made.encode(others), expected, atol=2e-3)
    assert np.abs(np.cov(made.encode(fitted).T) - np.eye(made.dimension)).max() < 0.01
    made.save(tmp_path)
    again = SentenceEncoder.load(tmp_path, device="cpu").encode(others)
    np.testing.assert_array_equal(again, made.encode(others))
    theirs = SentenceTransformer(str(tmp_path), device="cpu").encode(others)
    np.testing.assert_allclose(theirs, again, atol=2e-3)


def test_the_encoder_itself_and_the_global_generator_are_left_alone(
    encoder: SentenceEncoder, sentences: list[str]
) -> None:
    before, state = encoder.encode(sentences[:3]), torch.get_rng_state()
    made = whitened(encoder, Whitening.fit(encoder.encode(sentences[:80])))
    assert len(made.dense) == 1
    assert len(encoder.dense) == 0
    assert torch.equal(state, torch.get_rng_state())
    np.testing.assert_array_equal(encoder.encode(sentences[:3]), before)
    assert not made.training


def test_whitening_twice_is_appended_last(encoder: SentenceEncoder, sentences: list[str]) -> None:
    once = whitened(encoder, Whitening.fit(encoder.encode(sentences[:200]), 8))
    second = Whitening.fit(once.encode(sentences[200:400]), 5)
    np.testing.assert_allclose(
        whitened(once, second).encode(sentences[:9]), second.apply(once.encode(sentences[:9])), atol=1e-3
    )


def test_what_cannot_be_appended(encoder: SentenceEncoder) -> None:
    whitening = Whitening.fit(drawn(90, 6))
    with pytest.raises(UserError, match="takes vectors of 6 dimensions, the encoder gives 32"):
        whitened(encoder, whitening)
    unit = encoder.twin()
    unit.normalize = True
    with pytest.raises(UserError, match="set encoder"):
        whitened(unit, Whitening.fit(drawn(90, 32)))
