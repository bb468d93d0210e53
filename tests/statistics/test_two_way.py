"""The variance of data order and of dropout, against naive loops and simulated tables."""

from __future__ import annotations

import numpy as np
import pytest

from opencse import UserError
from opencse.statistics.two_way import two_way


def test_the_components_are_those_of_naive_loops() -> None:
    table = np.random.default_rng(0).normal(70, 2, size=(3, 4))
    layout = two_way({(10 + i, 20 + j): table[i, j] for i in range(3) for j in range(4)})
    rows = [sum(table[i, j] for j in range(4)) / 4 for i in range(3)]
    columns = [sum(table[i, j] for i in range(3)) / 3 for j in range(4)]
    mean = sum(rows) / 3
    of_rows = 4 * sum((row - mean) ** 2 for row in rows) / 2
    of_columns = 3 * sum((column - mean) ** 2 for column in columns) / 3
    rest = sum((table[i, j] - rows[i] - columns[j] + mean) ** 2 for i in range(3) for j in range(4)) / 6
    assert (layout.data_seeds, layout.dropout_seeds) == ((10, 11, 12), (20, 21, 22, 23))
    assert layout.scores == table.tolist()
    assert layout.mean == pytest.approx(mean, abs=1e-10)
    assert layout.sd_over_data == pytest.approx(np.sqrt(of_rows / 4), abs=1e-10)
    assert layout.sd_over_dropout == pytest.approx(np.sqrt(of_columns / 3), abs=1e-10)
    assert layout.variance_of_data == pytest.approx(max(0, (of_rows - rest) / 4), abs=1e-10)
    assert layout.variance_of_dropout == pytest.approx(max(0, (of_columns - rest) / 3), abs=1e-10)
    assert layout.variance_of_rest == pytest.approx(rest, abs=1e-10)


def test_the_estimates_are_right_on_average() -> None:
    random = np.random.default_rng(1)
    estimates = []
    for _ in range(400):
        table = random.normal(0, 3, (6, 1)) + random.normal(0, 2, (1, 6)) + random.normal(0, 1, (6, 6))
        layout = two_way({(i, j): table[i, j] for i in range(6) for j in range(6)})
        components = (layout.variance_of_data, layout.variance_of_dropout, layout.variance_of_rest)
        estimates.append([component or 0.0 for component in components])
    assert np.mean(estimates, axis=0) == pytest.approx([9, 4, 1], rel=0.15)


def test_one_row_has_a_spread_of_columns_alone() -> None:
    layout = two_way({(1, 1): 70.0, (1, 2): 72.0})
    assert (layout.mean, layout.sd_over_data, layout.variance_of_data) == (71.0, None, None)
    assert layout.sd_over_dropout == pytest.approx(2**0.5)


def test_a_table_with_a_gap_is_refused() -> None:
    with pytest.raises(UserError, match=r"no score for data order and dropout \[\(2, 1\)\]"):
        two_way({(1, 1): 1.0, (1, 2): 1.0, (2, 2): 1.0})
