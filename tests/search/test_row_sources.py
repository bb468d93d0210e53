"""Rows from memory and from files, their fingerprints, and options that do not apply."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.search.row_sources import FileRows, MemoryRows, open_rows
from opencse.text.readers import Source


def test_the_fingerprint_of_rows_never_changes() -> None:
    """Interrupted builds and caches of older versions are recognised by it."""
    rows = MemoryRows(["One.", {"text": "Two.", "id": 7, "year": 2020, "note": None}])
    assert rows.fingerprint() == "25e8f772eb8ae8e9aad1f284a822f77ea4f38ef0aeb5ad7022786224071ab15b"


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


@pytest.mark.parametrize("location", ["", "*.json"])
def test_one_file_of_several_may_lack_a_key_that_others_have(tmp_path: Path, location: str) -> None:
    (tmp_path / "a.json").write_text('{"text": "One.", "year": 2020}')
    (tmp_path / "b.json").write_text('{"text": "Two."}')
    rows = open_rows(tmp_path / location, metadata=["year"])
    assert {row.text: row.metadata["year"] for row in rows} == {"One.": 2020, "Two.": None}
    with pytest.raises(UserError, match=r"a\.json: no column 'yeer' \(did you mean 'year'\?\)"):
        list(open_rows(tmp_path / location, metadata=["yeer"]))


def test_a_title_is_put_before_a_text_that_does_not_begin_with_it(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("title,text\nCats,Cats sleep.\nDogs,They bark.\n", encoding="utf-8")
    assert [row.text for row in open_rows(tmp_path / "a.csv")] == ["Cats sleep.", "Dogs\nThey bark."]


def test_options_that_do_not_apply_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One.\n", encoding="utf-8")
    with pytest.raises(UserError, match="need a file"):
        open_rows(["One."], ids="id")
    with pytest.raises(UserError, match="a Source has its own"):
        open_rows(Source(str(tmp_path / "a.txt")), fields=["text"])
    with pytest.raises(UserError, match="the list is empty"):
        open_rows([])
