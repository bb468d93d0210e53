"""Results as a table: two decimals, a mark for incomplete data with a note, and nothing interpreted as markup."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table

from opencse.evaluation.table import Cell, TableRow, results_table


def rendered(table: Table) -> str:
    console = Console(width=200, file=io.StringIO())
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_cells() -> None:
    assert [str(Cell(1.005)), str(Cell(None)), str(Cell(2, complete=False)), str(Cell(3, suffix=" (2)"))] == [
        "1.00",
        "-",
        "2.00*",
        "3.00 (2)",
    ]


def test_a_mark_has_its_note_first() -> None:
    rows: list[TableRow] = [["[bold]a", Cell(50.0), Cell(None)], ["b", Cell(60.0, complete=False), Cell(1.0)]]
    table = results_table("title", ["Model"], ["one", "two"], rows, ["more", None], data="number of pairs")
    assert table.caption == "* not the published number of pairs: does not compare with published values\nmore"
    text = rendered(table)
    assert "[bold]a" in text
    assert "60.00*" in text


def test_without_a_mark_there_is_no_note() -> None:
    assert results_table("title", ["Model"], ["one"], [["a", Cell(1.0)]], data="parts").caption is None


def test_a_label_of_all_rows_is_in_the_title() -> None:
    rows: list[TableRow] = [["a", "mine", Cell(1.0)], ["b", "mine", Cell(2.0)]]
    table = results_table("Scores", ["Model", "Data set"], ["one"], rows)
    assert table.title == "Scores; data set: mine"
    assert [str(column.header) for column in table.columns] == ["Model", "one"]
    assert len(results_table("Scores", ["Model", "Data set"], ["one"], [*rows, ["b", "other", "1"]]).columns) == 3


def test_groups_are_separated() -> None:
    rows = [["a", "1"], ["a", "2"], ["b", "1"]]
    grouped = results_table("title", ["Task", "Subset"], [], rows, grouped=True)
    assert [row.end_section for row in grouped.rows] == [False, True, False]
