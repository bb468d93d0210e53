"""Texts of rows that are refused."""

from __future__ import annotations

import pytest

from opencse.errors import UserError
from opencse.text.files.formats import RawRow
from opencse.text.row_checks import NumericColumns, checked_texts


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
