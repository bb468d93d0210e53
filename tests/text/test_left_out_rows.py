"""Rows with an empty cell are left out and counted, in every kind of file; nothing else is."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from opencse.errors import UserError
from opencse.text.given import open_texts, with_labels
from opencse.text.labels import LabelledTexts
from opencse.text.left_out_rows import left_out_rows_of, say_left_out_rows
from opencse.text.readers import Source

COLUMNS = ("anchor", "positive")
ROWS = [("A kettle.", "It boils."), ("A train.", None), (None, "Snow."), ("A cat.", "It sleeps.")]
KEPT = [("A kettle.", "It boils."), ("A cat.", "It sleeps.")]


@pytest.fixture(params=["csv", "semicolons.csv", "tsv", "jsonl", "json", "parquet", "folder", "pattern"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    """A file of each kind, with a byte-order mark where it is text."""
    kind = request.param
    path = tmp_path / f"a.{kind}"
    separator = {"tsv": "\t", "semicolons.csv": ";"}.get(kind, ",")
    table = "\n".join(separator.join(cell or "" for cell in row) for row in (COLUMNS, *ROWS)) + "\n"
    objects = [dict(zip(COLUMNS, row, strict=True)) for row in ROWS]
    if kind == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(objects), path)
    elif kind == "jsonl":
        path.write_text("".join(f"{json.dumps(one)}\n" for one in objects), encoding="utf-8")
    elif kind == "json":
        path.write_text(json.dumps(objects), encoding="utf-8")
    elif kind in ("folder", "pattern"):
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "a.csv").write_text(table, encoding="utf-8")
        return Source(str(tmp_path / "folder" / ("*.csv" if kind == "pattern" else "")))
    else:
        path.write_text(table, encoding="utf-8-sig")
    return Source(str(path))


def test_rows_with_an_empty_cell_are_left_out_and_counted(source: Source) -> None:
    assert source.read().rows == KEPT
    said: list[str] = []
    say_left_out_rows(source, said.append)
    assert len(said) == 1
    assert said[0].startswith("left out   2 of 4 rows, with an empty cell (the first: ")
    assert said[0].endswith(", column 'positive')")
    say_left_out_rows(source, None)


def test_vectors_with_the_numbers_of_rows_need_all_of_them(source: Source) -> None:
    with pytest.raises(
        UserError, match=r"(line|row) \d: column 'positive' is empty, so the vectors after it would not"
    ):
        source.count_rows()


def test_a_row_without_a_label_is_left_out_with_its_label(tmp_path: Path) -> None:
    """The labels of the other rows stay with their texts."""
    path = tmp_path / "a.csv"
    path.write_text("sentence1,sentence2,score\nA,B,0.1\nC,,0.2\nD,E,\nF,G,0.4\n", encoding="utf-8")
    text = with_labels(open_texts(path), "score")
    assert isinstance(text, LabelledTexts)
    labels = text.row_labels()
    assert labels is not None
    assert text.read().rows == [("A", "B"), ("F", "G")]
    assert labels.values.tolist() == pytest.approx([0.1, 0.4])
    assert left_out_rows_of(text).startswith("left out   2 of 4 rows, with an empty cell (the first: line 3,")


def test_lines_prose_and_lists_have_no_cells(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One.\n\nTwo.\n", encoding="utf-8")
    (tmp_path / "a.md").write_text("# One\n\nTwo.\n", encoding="utf-8")
    for text in (tmp_path / "a.txt", tmp_path / "a.md", ["One.", "Two."]):
        assert left_out_rows_of(open_texts(text)) == ""
