"""Rows: conversion of values, and what is refused before it is stored."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from opencse.errors import UserError
from opencse.search.index import Index
from opencse.search.rows import IndexRow, checked_rows, plain


def test_values_are_converted_to_plain_ones() -> None:
    values = [True, np.int64(3), np.float32(0.5), "x", datetime.date(2026, 11, 25), None]
    assert [plain(value, "row", "column") for value in values] == [1, 3, 0.5, "x", "2026-11-25", None]


def test_rows_of_all_kinds() -> None:
    rows = list(checked_rows([" One. ", IndexRow("Two.", "b"), {"text": "Three.", "id": 7, "year": 2020}]))
    assert rows == [IndexRow("One."), IndexRow("Two.", "b"), IndexRow("Three.", "7", {"year": 2020})]
    with pytest.raises(TypeError, match="a list of texts or rows, not str"):
        list(checked_rows("One."))
    with pytest.raises(TypeError, match=r"rows\[0\] is a text, an IndexRow or a mapping, not int"):
        list(checked_rows([1]))  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text": "  "}, r"rows\[1\]: the text is empty"),
        ({"id": "x"}, r"rows\[1\] has no 'text'"),
        ({"text": "x", "id": " "}, "the id is empty"),
        ({"text": "x", "tags": ["a"]}, "column 'tags' holds list; metadata are texts, numbers, dates or empty: leave"),
        ({"text": "x", "n": 2**64}, "more than 64 bits"),
        ({"text": "x", "n": "\ud800"}, "surrogate"),
        ({"text": "x", "id": 1.5}, "the id is float"),
    ],
)
def test_invalid_rows_are_refused(index: Index, row: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        index.add(["Fine.", row])
    assert len(index) == 5
