"""Names for types of arrays."""

from __future__ import annotations

from typing import get_args

import numpy as np

from opencse import arrays


def test_each_name_is_a_type_of_array() -> None:
    kinds = {name: get_args(get_args(getattr(arrays, name))[1])[0] for name in ("Floats", "Integers", "Flags")}
    assert kinds == {"Floats": np.float64, "Integers": np.int64, "Flags": np.bool_}
