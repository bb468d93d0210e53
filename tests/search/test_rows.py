"""Rows: conversion of values, and what is refused before it is stored."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opencse import SentenceEncoder
from opencse.errors import UserError
from opencse.search.index import Index
from opencse.search.rows import IndexRow, checked_rows, plain


class _Table:
    """A table as pandas has it: its members are the names of its columns."""

    ndim, columns = 2, ("text", "year")

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


@pytest.mark.parametrize(
    ("rows", "message"),
    [(_Table(), "not _Table; of a table give its rows"), ({"a text"}, "not set"), ({"text": "a"}, "not dict")],
    ids=["table", "set", "dict"],
)
def test_tables_sets_and_mappings_are_no_lists(tmp_path: Path, mini: SentenceEncoder, rows: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        list(checked_rows(rows))
    with Index.build(tmp_path / "index", ["A cat sleeps."], mini) as index:
        with pytest.raises(UserError, match=f"not {type(rows).__name__}"):
            index.search(rows, 1)
        assert index.info().rows == 1


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
