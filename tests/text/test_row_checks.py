"""Texts of rows that are refused."""

from __future__ import annotations

import pytest

from opencse.errors import UserError
from opencse.text.files.formats import RawRow
from opencse.text.row_checks import NumericColumns, checked_texts, empty_column, line_about_empty


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (" ", "a.csv, line 3: column 'text' is empty; fill it or drop the line"),
        (None, "a.csv, line 3: column 'text' is empty"),
        (5, "a.csv, line 3: column 'text' holds int, not text"),
        ("\ud800", "holds half of a surrogate pair"),
    ],
)
def test_a_value_that_is_no_text_is_named(value: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        checked_texts(RawRow(3, 0, ("text",), (value,)), "a.csv", "line")


def test_a_column_of_numbers_next_to_texts_is_refused() -> None:
    columns = NumericColumns("pairs.csv")
    for row in (("A cat.", "1"), ("A dog.", "0.5")):
        columns.look(("anchor", "score"), row)
    with pytest.raises(UserError, match=r"pairs\.csv: column 'score' holds only numbers"):
        columns.refuse()


@pytest.mark.parametrize("value", [None, "", " \t\n"])
def test_a_row_with_an_empty_cell_is_found_and_counted(value: object) -> None:
    rows = [
        RawRow(2, 0, ("question", "answer"), ("How long?", "Two hours.")),
        RawRow(3, 0, ("question", "answer"), ("How far?", value)),
        RawRow(5, 0, ("question", "answer"), (value, value)),
    ]
    assert [empty_column(row) for row in rows] == [None, "answer", "question"]
    line = "left out   2 of 3 rows, with an empty cell (the first: line 3, column 'answer')"
    assert line_about_empty(rows, "line") == line
    assert line_about_empty(rows[:1], "line") == ""
