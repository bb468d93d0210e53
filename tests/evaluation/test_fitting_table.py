"""Tables in a narrow terminal: every name and score whole, however little room there is."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.table import Table

from opencse.evaluation.fitting_table import FittingTable, TableContent
from opencse.evaluation.table import Cell, TableRow, results_table
from opencse.studies.tables import Grid

TASKS = ["STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R", "Avg."]
LONG = ["runs/search-a/runs/START/esimcse++/42", "runs/search-a/runs/START/simcse/42"]


def rendered(table: Table, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(table, crop=False)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def scores(model: int) -> list[Cell]:
    return [Cell(60 + 10 * model + place / 8) for place in range(len(TASKS))]


@pytest.mark.parametrize("width", [200, 110, 80, 60, 40, 25])
def test_every_name_and_score_is_whole(width: int) -> None:
    rows: list[TableRow] = [[name, *scores(model)] for model, name in enumerate(LONG)]
    table = results_table("Spearman", ["System"], TASKS, rows)
    text = rendered(table, width)
    for name in LONG:
        assert text.count(name) == 1
    for model in (0, 1):
        for score in scores(model):
            assert f" {score} " in text
    assert all(f" {task} " in text for task in TASKS)
    assert text.count("Spearman") == 1


def test_a_wide_terminal_has_the_names_in_the_table() -> None:
    rows: list[TableRow] = [[name, *scores(model)] for model, name in enumerate(LONG)]
    text = rendered(results_table("title", ["System"], TASKS, rows), 200)
    assert f"│ {LONG[0]} " in text
    assert "1 = " not in text


def test_several_columns_of_names_are_numbered_one_after_another() -> None:
    rows: list[TableRow] = [[model, data, Cell(50.0)] for model in LONG for data in ("d" * 30, "e" * 30)]
    text = rendered(results_table("title", ["System", "Data set"], ["nDCG@10"], rows), 40)
    assert text.splitlines()[:4] == [f"1 = {LONG[0]}", f"2 = {LONG[1]}", "3 = " + "d" * 30, "4 = " + "e" * 30]
    assert [line.split("│")[1:3] for line in text.splitlines() if line.startswith("│")] == [
        [f" {model}      ", f" {data}        "] for model in (1, 2) for data in (3, 4)
    ]


def test_more_columns_than_fit_are_in_several_tables() -> None:
    names = [f"a/model/of/some/length/{number}" for number in range(9)]
    rows = [[name, *[f"{10 * number + place}.25" for place in range(8)]] for number, name in enumerate(names)]
    table = FittingTable(TableContent(["System"], TASKS, rows), title="the title", caption="the note")
    text = rendered(table, 40)
    assert max(map(len, text.splitlines())) <= 40
    assert all(text.count(f" {cell} ") == sum(row.count(cell) for row in rows) for row in rows for cell in row[1:])
    assert text.count("the title") == text.count("the note") == 1
    assert text.index("the title") < text.index("10.25") < text.index("82.25") < text.index("the note")


def test_the_sentences_of_a_comparison_are_folded_between_words() -> None:
    verdict = "+1.20 (95% interval +0.30 to +2.10), p = .012: better"
    rows = [["bert", "simcse", "3", "71.20 ± 0.42", verdict], ["bert", "esimcse", "3", "72.40 ± 0.10", "baseline"]]
    text = rendered(Grid(["start", "recipe", "seeds", "sts.average", "difference"], rows).rich("title"), 60)
    assert all(f" {word} " in text for row in rows for word in (*row[1:3], row[3], *row[4].split()))
    assert "start: bert" in text


@pytest.mark.parametrize("rows", [[], [["a"]]])
def test_tables_without_scores_or_rows_are_shown(rows: list[list[str]]) -> None:
    assert "System" in rendered(results_table("title", ["System"], [], rows), 20)
