from __future__ import annotations

from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.text.files.formats import (
    RawRow,
    choose_columns,
    column_like,
    html_columns,
    present_columns,
    read_records,
    without_markup,
)
from opencse.text.files.kinds import recognise

CONTENT = {
    "a.txt": ("one\n\ntwo\n", [(1, 0, ("one",)), (3, 1, ("two",))]),
    "a.csv": ("text,n\none,1\n", [(2, 0, ("one",))]),
    "a.jsonl": ('{"text": "one"}\n', [(1, 0, ("one",))]),
    "a.json": ('[{"text": "one"}, {"text": "two"}]', [(1, 0, ("one",)), (2, 0, ("two",))]),
    "a.xml": ("<?xml version='1.0'?><r><i><text>one</text></i><i><text>two</text></i></r>", None),
    "a.md": ("# Title\n\nOne.\n", [(1, 0, ("One.",))]),
}


@pytest.mark.parametrize("name", CONTENT)
def test_every_kind_is_read_as_rows(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    content, expected = CONTENT[name]
    path.write_text(content)
    kind = recognise(path)
    rows = list(read_records(path, kind, None))
    if expected is None:
        assert [row.values for row in rows] == [("one",), ("two",)]
    else:
        assert [(row.number, row.document, row.values) for row in rows] == expected
    assert set(rows[0].names) <= {*present_columns(path, kind), "sentence"}


def test_default_columns_in_any_letter_case() -> None:
    assert choose_columns(None, ["id", "Anchor", "POSITIVE"], "a.csv") == ("Anchor", "POSITIVE")
    assert choose_columns(("id",), ["id", "text"], "a.csv") == ("id",)
    assert column_like("text", ["TEXT", "Text"]) is None
    with pytest.raises(UserError, match=r"no column 'ids', did you mean 'id'|no column 'ids'"):
        choose_columns(("ids",), ["id"], "a.csv")
    with pytest.raises(UserError, match="2 columns are called 'text'"):
        choose_columns(None, ["text", "text"], "a.csv")


def test_columns_that_hold_html_become_text() -> None:
    rows = [RawRow(n, 0, ("a", "b"), ("<p>One &amp; two</p>", "1 < 2")) for n in range(3)]
    assert html_columns(rows) == {0}
    assert [row.values for row in without_markup(iter(rows))] == [("One & two", "1 < 2")] * 3
    assert html_columns([]) == frozenset()
