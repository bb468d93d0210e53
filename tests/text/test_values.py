"""Values that have to be text."""

from __future__ import annotations

import pytest

from opencse.errors import UserError
from opencse.text.values import require_filled, require_text


def test_text_is_returned_as_it_is_and_filled_text_without_white_space_around_it() -> None:
    assert require_text(" a\n", "'text'", "row 1") == " a\n"
    assert require_text("", "'text'", "row 1") == ""
    assert require_filled(" a\n", "'text'", "row 1") == "a"


@pytest.mark.parametrize("check", [require_text, require_filled])
@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (None, "is NoneType, not text; correct it or name another column"),
        (b"a", "is bytes, not text; correct it or name another column"),
        ("a \ud800", "holds half of a surrogate pair, which is not text; correct its \\u escapes"),
    ],
)
def test_anything_else_is_refused_naming_value_and_record(check: object, value: object, fault: str) -> None:
    assert callable(check)
    with pytest.raises(UserError) as refused:
        check(value, "'text'", "row 1")
    assert str(refused.value) == f"row 1: 'text' {fault}"


def test_an_empty_text_is_refused_naming_what_to_drop() -> None:
    with pytest.raises(UserError) as refused:
        require_filled(" \n", "the text", "rows[2]", "row")
    assert str(refused.value) == "rows[2]: the text is empty; fill it or drop the row"
