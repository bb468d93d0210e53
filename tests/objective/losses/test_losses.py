"""Names that older parts import from the losses."""

from __future__ import annotations

import importlib

import pytest

from opencse.objective.columns import LogitColumns


def test_columns_are_importable_by_the_name_that_older_parts_use() -> None:
    losses = importlib.import_module("opencse.objective.losses")
    with pytest.warns(DeprecationWarning, match=r"is now opencse\.objective\.columns\.LogitColumns"):
        assert losses.Columns is LogitColumns
    with pytest.raises(AttributeError, match="no attribute 'Colums'"):
        _ = losses.Colums
