"""Rows from memory and from files, their fingerprints, and options that do not apply."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opencse.errors import UserError
from opencse.search.result import IndexInfo
from opencse.search.rows import FileRows, open_rows
from opencse.text.readers import Source


def test_columns_of_a_table_become_numbers_where_all_values_are(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("_id,text,year,mixed\na,One.,2020,1\nb,Two.,,x\n", encoding="utf-8")
    rows = open_rows(tmp_path / "a.csv", fields=["text"], metadata=["year", "mixed"])
    assert isinstance(rows, FileRows)
    assert rows.count == 2
    assert [(row.id, row.text, dict(row.metadata)) for row in rows] == [
        ("a", "One.", {"year": 2020, "mixed": "1"}),
        ("b", "Two.", {"year": None, "mixed": "x"}),
    ]
    assert (
        rows.fingerprint() == open_rows(tmp_path / "a.csv", fields=["text"], metadata=["year", "mixed"]).fingerprint()
    )
    assert rows.fingerprint() != open_rows(tmp_path / "a.csv", fields=["text"], metadata=["year"]).fingerprint()


def test_objects_without_a_column_have_no_value_there(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "One."}\n{"text": "Two.", "year": 2020}\n{"text": "Three.", "year": null}\n')
    rows = open_rows(path, metadata=["year"])
    assert [dict(row.metadata) for row in rows] == [{"year": None}, {"year": 2020}, {"year": None}]
    with pytest.raises(UserError, match=r"no column 'yeer' \(did you mean 'year'\?\)"):
        list(open_rows(path, metadata=["yeer"]))


def test_options_that_do_not_apply_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One.\n", encoding="utf-8")
    with pytest.raises(UserError, match="need a file"):
        open_rows(["One."], ids="id")
    with pytest.raises(UserError, match="a Source has its own"):
        open_rows(Source(str(tmp_path / "a.txt")), fields=["text"])
    with pytest.raises(UserError, match="the list is empty"):
        open_rows([])


def built_with(**fields: Any) -> IndexInfo:
    """The description of an index called ix."""
    values = {
        "folder": "ix", "kind": "flat", "rows": 1, "documents": 1, "dimension": 2, "model": "", "fingerprint": "",
        "pooling": None, "query_prompt": "", "document_prompt": "", "columns": {}, "max_length": None, "overlap": 0,
        "version": 1, "megabytes": 0.0,
    }  # fmt: skip
    return IndexInfo(**{**values, **fields})


TICKETS = built_with(fields=("subject", "body"), ids="ticket")


def test_added_rows_are_read_with_the_fields_and_ids_of_the_build(tmp_path: Path) -> None:
    """Without these, a file with a column `text` of another kind was added, and rows had numbers instead of ids."""
    path = tmp_path / "a.csv"
    path.write_text("ticket,subject,body,text\nT1,Kettle,It leaks.,internal note\n", encoding="utf-8")
    [row] = open_rows(path, added_to=TICKETS)
    assert (row.id, row.text) == ("T1", "Kettle\nIt leaks.")
    [row] = open_rows(path, fields=["text"], added_to=TICKETS)  # what is typed replaces both
    assert (row.id, row.text) == (None, "internal note")
    [row] = open_rows(Source(str(path)), added_to=TICKETS)
    assert row.id == "T1"
    [row] = open_rows(Source(str(path), ("text",)), added_to=TICKETS)
    assert (row.id, row.text) == (None, "internal note")


@pytest.mark.parametrize("header", ["text", "subject,body", "ticket,text"])
def test_a_table_without_the_fields_or_ids_of_the_build_is_refused(tmp_path: Path, header: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"{header}\n{header}\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"no column '(subject|ticket)'.*ix was built with --fields subject,body"):
        open_rows(path, added_to=TICKETS)


@pytest.mark.parametrize("options", [{}, {"fields": ["text"]}])
def test_added_values_have_the_kinds_of_the_columns_of_the_index(tmp_path: Path, options: dict[str, Any]) -> None:
    """Of a file alone 1.10 is the number 1.1, and one x makes a column of numbers text, which no condition finds."""
    index = built_with(columns={"version": "text", "year": "number", "other": "mixed"})
    path = tmp_path / "a.csv"
    path.write_text("text,version,year,other,new\nOne.,1.10,2020,7,8\nTwo.,,,,\n", encoding="utf-8")
    rows = [dict(row.metadata) for row in open_rows(path, added_to=index, **options)]
    assert rows == [{"version": "1.10", "year": 2020, "other": 7}, {"version": None, "year": None, "other": None}]
    for value in ("inf", "x", "1e999"):
        path.write_text(f"text,version,year\nOne.,x,\nTwo.,y,{value}\n", encoding="utf-8")
        expected = rf"a\.csv, line 3: column 'year' holds '{value}', and the index has numbers there; leave the value"
        with pytest.raises(UserError, match=expected):
            open_rows(path, added_to=index, **options)
    assert [row.metadata["year"] for row in open_rows(path, metadata=["year"])] == [None, "1e999"]
