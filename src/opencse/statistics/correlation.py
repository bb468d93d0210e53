"""Pearson's and Spearman's correlation, and the cosine of paired vectors."""

from __future__ import annotations

import numpy as np

from opencse.arrays import Flags, Floats, Integers, Vectors
from opencse.errors import UserError

_BLOCK = 4096  # pairs multiplied at a time


def cosine_of_rows(first: Vectors, second: Vectors) -> Floats:
    r"""Returns the cosine of row i of one matrix with row i of the other, in float64.

    .. math:: c_i = \frac{u_i \cdot v_i}{\sqrt{(u_i \cdot u_i)(v_i \cdot v_i)}}

    Each row is first divided by a power of two near its largest value: exact, and nothing overflows.
    Written with one root, equal rows give exactly 1 and so tie. A row of zeros has cosine 0 with everything.

    Args:
        first: (n, d).
        second: (n, d).

    Returns:
        (n,) values in [-1, 1], no unit.

    Raises:
        UserError: if a value is NaN or infinite (SentEval silently turns those into 0).

    Example:
        >>> first = np.array([[3.0, 4.0], [1.0, 0.0], [0.0, 0.0]])
        >>> second = np.array([[4.0, 3.0], [-2.0, 0.0], [1.0, 1.0]])
        >>> cosine_of_rows(first, second).tolist()
        [0.96, -1.0, 0.0]
    """
    u, v = _scaled(first), _scaled(second)
    return _cosines((u * v).sum(axis=1), (u * u).sum(axis=1) * (v * v).sum(axis=1))


def cosine_of_pairs(vectors: Vectors, first: Integers, second: Integers) -> Floats:
    """Returns the cosines of pairs of rows of one matrix, as `cosine_of_rows` does, each row scaled once.

    Args:
        vectors: (n, d).
        first: (m,) number of each pair's first row.
        second: (m,) number of its second row.

    Returns:
        (m,) values in [-1, 1], no unit.

    Raises:
        UserError: if a value is NaN or infinite.

    Example:
        >>> vectors = np.array([[3.0, 4.0], [4.0, 3.0], [-2.0, 0.0]])
        >>> cosine_of_pairs(vectors, np.array([0, 1]), np.array([1, 2])).tolist()
        [0.96, -0.8]
    """
    rows = _scaled(vectors)
    squares = (rows * rows).sum(axis=1)
    cosines = np.empty(len(first))
    for start in range(0, len(first), _BLOCK):
        one, two = first[start : start + _BLOCK], second[start : start + _BLOCK]
        cosines[start : start + _BLOCK] = _cosines((rows[one] * rows[two]).sum(axis=1), squares[one] * squares[two])
    return cosines


def _cosines(dots: Floats, squares: Floats) -> Floats:
    cosines: Floats = np.divide(dots, np.sqrt(squares), out=np.zeros_like(dots), where=squares > 0)
    return cosines.clip(-1.0, 1.0)


def _scaled(rows: Vectors) -> Floats:
    invalid = rows_not_finite(rows)
    if invalid.any():
        raise UserError(
            f"{int(invalid.sum())} of {len(rows)} sentence vectors hold NaN or infinite values (first: row "
            f"{int(invalid.argmax())}, from 0), so their cosine is undefined; the model has diverged, or "
            "overflows its number format: try float32"
        )
    return _near_one(rows.astype(np.float64), axis=1)


def rows_not_finite(rows: Vectors) -> Flags:
    """Marks the rows (n,) of an (n, d) matrix that hold a NaN or infinite value."""
    return ~np.asarray(np.isfinite(rows).all(axis=1))


def spearman(predicted: Floats, gold: Floats) -> float:
    """Returns Spearman's correlation: Pearson's of the ranks, where ties share their mean rank.

    Bit for bit the value of scipy's ``spearmanr``.

    Args:
        predicted: (n,).
        gold: (n,).

    Returns:
        A value in [-1, 1]; 0.0 if either side is constant, since it then gives no order.

    Example:
        >>> cosines, gold = np.array([0.2, 0.9, 0.4, 0.4]), np.array([1.0, 5.0, 3.0, 2.0])
        >>> round(spearman(cosines, gold), 4)
        0.9487
    """
    if _constant(predicted, gold):
        return 0.0
    return float(np.corrcoef([mean_ranks(predicted), mean_ranks(gold)])[1, 0])


def mean_ranks(values: Floats) -> Floats:
    """Ranks the values (n,) from 1 upwards; equal values share the mean of their ranks (scipy's ``rankdata``).

    Example:
        >>> mean_ranks(np.array([0.2, 0.9, 0.4, 0.4])).tolist()
        [1.0, 4.0, 2.5, 2.5]
    """
    _, groups, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - (counts - 1) / 2)[groups]
    return ranks


def pearson(predicted: Floats, gold: Floats) -> float:
    r"""Returns Pearson's correlation, bit for bit the value of scipy's ``pearsonr``.

    .. math:: r = \frac{\sum_i (x_i - \bar x)(y_i - \bar y)}
                       {\sqrt{\sum_i (x_i - \bar x)^2 \sum_i (y_i - \bar y)^2}}

    Args:
        predicted: (n,).
        gold: (n,).

    Returns:
        A value in [-1, 1]; 0.0 if either side is constant up to rounding, since it then says nothing.

    Example:
        >>> cosines, gold = np.array([0.2, 0.9, 0.4, 0.4]), np.array([1.0, 5.0, 3.0, 2.0])
        >>> round(pearson(cosines, gold), 4)
        0.9641
    """
    if _constant(predicted, gold):
        return 0.0
    units = [_unit_deviations(_near_one(side, axis=0)) for side in (predicted, gold)]
    if any(side is None for side in units):
        return 0.0
    correlation = float(np.clip(np.vecdot(*(side for side in units if side is not None)), -1.0, 1.0))
    return correlation if len(gold) > 2 else float(np.sign(correlation))  # of two values exactly 1 or -1


def _unit_deviations(values: Floats) -> Floats | None:
    """Returns the deviations from the mean (n,), L2-normalised; None where they are only rounding."""
    mean = values.mean()
    deviations: Floats = values - mean
    largest = np.abs(deviations).max()
    length = largest * np.linalg.norm(deviations / largest, axis=0)  # nothing overflows, and tiny deviations count
    # scipy's own limit for deviations that are rounding alone.
    return None if length < np.finfo(np.float64).eps ** 0.75 * abs(mean) else deviations / length


def _constant(predicted: Floats, gold: Floats) -> bool:
    return bool((predicted == predicted[0]).all() or (gold == gold[0]).all())


def _near_one(values: Floats, axis: int) -> Floats:
    """Multiplies values by the power of two that brings the largest along ``axis`` into [1, 2); zeros stay."""
    # A power of two rounds nothing, and squares neither overflow nor vanish.
    _, exponents = np.frexp(np.abs(values).max(axis=axis, keepdims=True, initial=0.0))
    scaled: Floats = np.ldexp(values, 1 - exponents)
    return scaled
