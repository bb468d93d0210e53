"""Tables of scores, in any terminal, and what a record of STS holds."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.table import Table

from opencse.evaluation import EvaluationRecord, sts_table
from opencse.evaluation.table import Cell, FittingTable, TableContent, TableRow, results_table
from sts_results import all_tasks, sts_result, task_scores


@pytest.fixture
def full() -> EvaluationRecord:
    return all_tasks()


def rendered(table: Table) -> str:
    console = Console(width=160, file=None, record=True, quiet=False, force_terminal=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_table_has_a_row_a_model(full: EvaluationRecord) -> None:
    some = sts_result({"stsb": task_scores("stsb", 75.0, complete=False)})
    table = sts_table({"[bold]one": full, "two": some})
    assert [str(column.header) for column in table.columns] == [
        "Model", "STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R", "Avg.",
    ]  # fmt: skip
    text = rendered(table)
    one = next(line for line in text.splitlines() if "[bold]one" in line)
    assert [cell.strip() for cell in one.strip("│").split("│")][1:] == [
        "70.00", "71.00", "72.00", "73.00", "74.00", "75.00", "76.00", "73.00",
    ]  # fmt: skip
    two = next(line for line in text.splitlines() if "two" in line)
    assert [cell.strip() for cell in two.strip("│").split("│")][1:] == [*"-----", "75.00*", "-", "-"]
    assert "not the published number of pairs" in text


COLUMNS = ["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R", "Avg."]
LONG = ["runs/search-a/runs/START/esimcse++/42", "runs/search-a/runs/START/simcse/42"]


def rendered_at(table: Table, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(table, crop=False)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def scores(model: int) -> list[Cell]:
    return [Cell(60 + 10 * model + place / 8) for place in range(len(COLUMNS))]


@pytest.mark.parametrize("width", [200, 60, 25])
def test_every_name_and_score_is_whole(width: int) -> None:
    rows: list[TableRow] = [[name, *scores(model)] for model, name in enumerate(LONG)]
    table = results_table("Spearman", ["System"], COLUMNS, rows)
    text = rendered_at(table, width)
    for name in LONG:
        assert text.count(name) == 1
    for model in (0, 1):
        for score in scores(model):
            assert f" {score} " in text
    assert all(f" {task} " in text for task in COLUMNS)
    assert text.count("Spearman") == 1


def test_more_columns_than_fit_are_in_several_tables() -> None:
    names = [f"a/model/of/some/length/{number}" for number in range(9)]
    rows = [[name, *[f"{10 * number + place}.25" for place in range(8)]] for number, name in enumerate(names)]
    table = FittingTable(TableContent(["System"], COLUMNS, rows), title="the title", caption="the [b]note")
    text = rendered_at(table, 40)
    assert max(map(len, text.splitlines())) <= 40
    assert all(text.count(f" {cell} ") == sum(row.count(cell) for row in rows) for row in rows for cell in row[1:])
    assert text.count("the title") == text.count("the [b]note") == 1
    assert text.index("the title") < text.index("10.25") < text.index("82.25") < text.index("the [b]note")
