"""Lists of texts in memory: what counts as one, in addition to Python's own lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, TypeGuard

from opencse.errors import UserError


def is_list(values: object) -> TypeGuard[Iterable[Any]]:
    """Whether the members of ``values`` are one after another; not those of sets, mappings and tables.

    Columns of pandas and arrays with one axis are lists.
    """
    flat = getattr(values, "ndim", 1) == 1  # a table's members are its columns
    return isinstance(values, Iterable) and flat and not isinstance(values, bytes | bytearray | Mapping | Set)


def is_missing(value: object) -> bool:
    """Whether a value is None, or what pandas has for an empty cell: nan, NaT and NA, none of which equals itself.

    Example:
        >>> [is_missing(value) for value in (None, float("nan"), "", 0)]
        [True, True, False, False]
    """
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # NA says neither, and so do arrays
        return not hasattr(value, "__len__")


def as_list(texts: object) -> list[Any]:
    """The members of ``texts`` as a list; refuses values without an order, such as sets and mappings."""
    if is_list(texts):
        return list(texts)
    raise UserError(f"texts: a string or a list of strings is expected, not {type(texts).__name__}")


def some_of(texts: object, message: str) -> list[Any]:
    """The members of ``texts``, at least one, as a list.

    Raises:
        UserError: saying ``message`` for a single string and for an empty list; for values without an order.
    """
    listed = [] if isinstance(texts, str) else as_list(texts)
    if not listed:
        raise UserError(message)
    return listed


def rows_of(values: object, message: str) -> list[Any]:
    """The members of a list that may be read more than once: no generator, which is empty after the first time.

    Example:
        >>> import numpy as np
        >>> rows_of(np.array(["a", "b"]), "text is a list of texts")
        ['a', 'b']
        >>> rows_of({"a": 1}, "text is a list of texts")
        Traceback (most recent call last):
        TypeError: text is a list of texts, not dict

    Args:
        values: the list.
        message: what is expected, for the error.

    Raises:
        TypeError: for anything else; for a table with the way to give its rows.
    """
    if is_list(values) and not isinstance(values, str | Iterator):
        return list(getattr(values, "tolist", lambda: values)())  # Python's own texts, not numpy's
    rows = "; of a table give a column, or its rows as tuples" if getattr(values, "ndim", 1) > 1 else ""
    raise TypeError(f"{message}, not {type(values).__name__}{rows}")
