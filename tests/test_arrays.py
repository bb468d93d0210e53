"""Names for types of arrays."""

from __future__ import annotations

import warnings
from typing import get_args

import numpy as np
import pytest

from opencse import arrays


def test_each_name_is_a_type_of_array() -> None:
    kinds = {name: get_args(get_args(getattr(arrays, name))[1])[0] for name in ("Floats", "Integers", "Flags")}
    assert kinds == {"Floats": np.float64, "Integers": np.int64, "Flags": np.bool_}


def test_numbers_that_are_not_finite_are_computed_without_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        @arrays.without_warnings
        def quiet(rows: arrays.Floats) -> arrays.Floats:
            return rows - rows

        for _ in range(2):  # a decorated function may be called again
            assert np.isnan(quiet(np.array([np.inf]))).all()
        with pytest.raises(RuntimeWarning):
            np.array([np.inf]) - np.array([np.inf])
