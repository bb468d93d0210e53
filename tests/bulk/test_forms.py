from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from opencse.bulk.forms import NUMBERS, Form, first_wrong
from opencse.errors import UserError
from opencse.modules.similarity import unit_rows


@pytest.fixture
def vectors() -> NDArray[np.float32]:
    return (3 * np.random.default_rng(0).standard_normal((40, 21))).astype(np.float32)


def cosines(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    unit = unit_rows(vectors)
    return np.asarray(unit @ unit.T)


@pytest.mark.parametrize(("numbers", "most"), [("float32", 1e-6), ("float16", 2e-3), ("int8", 1e-2)])
def test_cosines_stay(vectors: NDArray[np.float32], numbers: str, most: float) -> None:
    form = Form(numbers, dimensions=13)  # type: ignore[arg-type]
    written = form.of(vectors)
    assert written.dtype == form.stored
    assert written.shape == (40, form.width(21)) == (40, 13)
    error = np.abs(cosines(form.restored(written, 21)) - cosines(vectors[:, :13])).max()
    assert error < most
    assert (error > most / 1_000) == (numbers != "float32")


@pytest.mark.parametrize("dimensions", [None, 8, 13])
def test_bits_count_equal_signs(vectors: NDArray[np.float32], dimensions: int | None) -> None:
    form = Form("binary", dimensions)
    written = form.of(vectors)
    kept = vectors[:, :dimensions]
    assert written.dtype == np.uint8
    assert written.shape == (40, form.width(21)) == (40, -(-kept.shape[1] // 8))
    for i, j in ((0, 1), (5, 30)):
        differ = sum((a > 0) != (b > 0) for a, b in zip(kept[i], kept[j], strict=True))
        assert np.bitwise_count(written[i] ^ written[j]).sum() == differ
        restored = form.restored(written, 21)
        assert restored[i] @ restored[j] == kept.shape[1] - 2 * differ


def test_a_vector_is_normalised_after_it_is_truncated(vectors: NDArray[np.float32]) -> None:
    assert np.allclose(np.linalg.norm(Form(dimensions=5, normalize=True).of(vectors), axis=1), 1)


def test_int8_is_of_each_vectors_own_largest(vectors: NDArray[np.float32]) -> None:
    vectors[3] = 0
    written = Form("int8").of(vectors)
    assert (np.abs(written).max(axis=1) == np.where(np.arange(40) == 3, 0, 127)).all()
    assert np.array_equal(written, Form("int8", normalize=True).of(vectors))
    assert np.array_equal(written[:1], Form("int8").of(vectors[:1]))  # whatever comes with it


@pytest.mark.parametrize("numbers", NUMBERS)
def test_what_does_not_fit_is_found(vectors: NDArray[np.float32], numbers: str) -> None:
    form = Form(numbers)  # type: ignore[arg-type]
    assert first_wrong(form.of(vectors)) is None
    large = vectors.copy()
    large[7, 2] = 1e6
    assert first_wrong(form.of(large)) == (7 if numbers == "float16" else None)


def test_what_cannot_be_made_is_refused() -> None:
    Form(dimensions=21).require(21)
    with pytest.raises(UserError, match="dimensions is from 1 to the 21 of this model, not 22"):
        Form(dimensions=22).require(21)
    with pytest.raises(UserError, match="unknown kind of numbers 'int4'"):
        Form("int4").require(21)  # type: ignore[arg-type]
