"""The first dimensions of vectors, and numbers of them that are refused."""

from __future__ import annotations

import numpy as np
import pytest

from opencse.errors import UserError
from opencse.modules.first_dimensions import first_of, require_dimensions


@pytest.mark.parametrize("dimensions", [1, 2, 3, None])
def test_the_first_dimensions_are_kept(dimensions: int | None) -> None:
    require_dimensions(dimensions, 3)
    vectors = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(first_of(vectors, dimensions), vectors[:, : dimensions or 3])


@pytest.mark.parametrize("dimensions", [-1, 0, 4])
def test_more_than_there_are_and_none_are_refused(dimensions: int) -> None:
    with pytest.raises(UserError, match=rf"^dimensions is from 1 to the 3 of mini, not {dimensions}$"):
        require_dimensions(dimensions, 3, "mini")
