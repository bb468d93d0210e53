"""Two sources of variation in one table of scores: data order and dropout, each with seeds of its own."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from pydantic import FiniteFloat

from opencse.arrays import Floats
from opencse.errors import UserError
from opencse.settings import Settings


class TwoWay(Settings):
    """The variation of one system's scores over data order and dropout, from a full table of both.

    Attributes:
        data_seeds: the seeds of the data order, one for each row of the table.
        dropout_seeds: the seeds of dropout, one for each column.
        scores: the table, rows by data order.
        mean: of all scores.
        sd_over_data: of the means of the rows, with I - 1 in the denominator; None for one row.
        sd_over_dropout: of the means of the columns; None for one column.
        variance_of_data: estimated variance that the data order adds to a score; None without several rows and columns.
        variance_of_dropout: that dropout adds.
        variance_of_rest: of their interaction and everything else.
    """

    data_seeds: tuple[int, ...]
    dropout_seeds: tuple[int, ...]
    scores: list[list[FiniteFloat]]
    mean: FiniteFloat
    sd_over_data: FiniteFloat | None
    sd_over_dropout: FiniteFloat | None
    variance_of_data: FiniteFloat | None
    variance_of_dropout: FiniteFloat | None
    variance_of_rest: FiniteFloat | None


def two_way(scores: Mapping[tuple[int, int], float]) -> TwoWay:
    r"""Separates the variance of scores over data order i (of I) and dropout j (of J), one run for each pair.

    The model is :math:`x_{ij} = \mu + a_i + b_j + e_{ij}`, all random. With the mean squares of rows and columns and of
    the rest,

    .. math:: M_a = \frac{J}{I-1} \sum_i (\bar x_{i\cdot} - \bar x)^2, \quad
              M_b = \frac{I}{J-1} \sum_j (\bar x_{\cdot j} - \bar x)^2, \quad
              M_e = \frac{\sum_{ij} (x_{ij} - \bar x_{i\cdot} - \bar x_{\cdot j} + \bar x)^2}{(I-1)(J-1)},

    the variances are :math:`(M_a - M_e) / J`, :math:`(M_b - M_e) / I` and :math:`M_e` (Searle, Casella and McCulloch
    1992, Variance components, chapter 4). An estimate below 0 is reported as 0. A few seeds give rough estimates.

    Args:
        scores: by (seed of the data order, seed of dropout), for every pair of them.

    Raises:
        UserError: for a table that is not full.

    Example:
        >>> table = two_way({(1, 1): 70.0, (1, 2): 71.0, (2, 1): 74.0, (2, 2): 75.0})
        >>> table.variance_of_data, table.variance_of_dropout, table.variance_of_rest
        (8.0, 0.5, 0.0)
    """
    rows = tuple(sorted({row for row, _ in scores}))
    columns = tuple(sorted({column for _, column in scores}))
    missing = [(row, column) for row in rows for column in columns if (row, column) not in scores]
    if missing or not rows:
        raise UserError(f"no score for data order and dropout {missing[:3]}; every pair of seeds needs a run")
    table = np.array([[scores[row, column] for column in columns] for row in rows], dtype=np.float64)
    mean, by_row, by_column = float(table.mean()), table.mean(axis=1), table.mean(axis=0)
    several = len(rows) > 1 and len(columns) > 1
    of_data = of_dropout = of_rest = None
    if several:
        rest = table - by_row[:, None] - by_column[None, :] + mean
        of_rest = float((rest**2).sum() / ((len(rows) - 1) * (len(columns) - 1)))
        of_data = max(0.0, float(by_row.var(ddof=1)) - of_rest / len(columns))
        of_dropout = max(0.0, float(by_column.var(ddof=1)) - of_rest / len(rows))
    return TwoWay(
        data_seeds=rows,
        dropout_seeds=columns,
        scores=table.tolist(),
        mean=mean,
        sd_over_data=_sd(by_row),
        sd_over_dropout=_sd(by_column),
        variance_of_data=of_data,
        variance_of_dropout=of_dropout,
        variance_of_rest=of_rest,
    )


def _sd(means: Floats) -> float | None:
    return float(means.std(ddof=1)) if len(means) > 1 else None
