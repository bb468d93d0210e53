"""Tables of scores, in any terminal, and what a record of STS holds."""

from __future__ import annotations

import io
import json
import os
from datetime import datetime, timedelta
from importlib.metadata import version
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from opencse.evaluation import TASKS, StsResult, StsScores, TaskScore, sts_table
from opencse.evaluation.fitting_table import FittingTable, TableContent
from opencse.evaluation.sts.result import LengthScore, LengthSplit
from opencse.evaluation.sts.tables import length_table, mean_by_length
from opencse.evaluation.table import Cell, TableRow, results_table
from opencse.studies.tables import Grid
from sts_results import all_tasks, sts_result, task_score


@pytest.fixture
def full() -> StsResult:
    return all_tasks()


def rendered(table: Table) -> str:
    console = Console(width=160, file=None, record=True, quiet=False, force_terminal=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def cells(table: Table) -> list[list[str]]:
    rows = [line for line in rendered(table).splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in row.strip("│").split("│")] for row in rows]


def result_by_length(splits: dict[str, tuple[float, float, int] | None]) -> StsResult:
    """A result with these Spearman correlations of pairs of similar and of different length, and numbers of pairs."""
    tasks: dict[str, TaskScore] = {}
    for key, split in splits.items():
        halves = None
        if split is not None:
            near, far, n = split
            halves = LengthSplit(up_to_3=LengthScore(spearman=near, n=n), over_3=LengthScore(spearman=far, n=n + 1))
        tasks[key] = task_score(key, 70.0).model_copy(update={"by_length": halves})
    return sts_result(tasks)


def test_table_has_a_row_a_model(full: StsResult) -> None:
    some = sts_result({"stsb": full.sts.tasks["stsb"].model_copy(update={"complete": False})})
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
    assert [cell.strip() for cell in two.strip("│").split("│")][1:] == [
        "-",
        "-",
        "-",
        "-",
        "-",
        "75.00*",
        "-",
        "-",
    ]
    assert "not the published number of pairs" in text


def test_table_by_subset(full: StsResult) -> None:
    table = sts_table({"one": full, "two": sts_result({"stsb": full.sts.tasks["stsb"]})}, subsets=True)
    assert table.row_count == 26
    lines = rendered(table).splitlines()
    msrvid = next(line for line in lines if "MSRvid" in line)
    assert [cell.strip() for cell in msrvid.strip("│").split("│")] == ["STS12", "MSRvid", "3", "70.10", "-"]
    pearson = rendered(sts_table({"one": full}, correlation="pearson", subsets=True))
    assert "69.90" in next(line for line in pearson.splitlines() if "MSRvid" in line)


def test_table_has_two_rows_a_model_and_the_numbers_of_pairs() -> None:
    one = result_by_length({"sts12": (70.0, 60.0, 1000), "stsb": (80.5, 65.0, 20)})
    two = result_by_length({"sts12": None, "stsb": (81.0, 66.0, 30)})
    table = length_table({"[b]one": one, "two": two})
    assert [str(column.header) for column in table.columns] == ["Model", "Difference", "STS12", "STS-B", "Avg."]
    assert cells(table) == [
        ["pairs", "up to 3", "1,000", "20/30", "-"],
        ["pairs", "over 3", "1,001", "21/31", "-"],
        ["[b]one", "up to 3", "70.00", "80.50", "75.25"],
        ["[b]one", "over 3", "60.00", "65.00", "62.50"],
        ["two", "up to 3", "-", "81.00", "-"],
        ["two", "over 3", "-", "66.00", "-"],
    ]


def test_mean_is_over_all_tasks_or_none() -> None:
    assert mean_by_length(result_by_length({"sts12": (70.0, 60.0, 9), "stsb": (80.0, 65.0, 9)}).sts) == (75.0, 62.5)
    assert mean_by_length(result_by_length({"sts12": None, "stsb": (80.0, 65.0, 9)}).sts) is None
    assert mean_by_length(StsScores(tasks={}, average=None)) is None


def test_json_has_the_agreed_keys(full: StsResult, tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "sts.json"
    full.write_json(path)
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data == full.to_dict()
    assert data["schema_version"] == 1
    assert set(data) == {
        "schema_version", "opencse", "created", "model", "pooling", "code", "data", "environment", "seconds", "sts",
    }  # fmt: skip
    assert list(data["sts"]) == [*TASKS, "average"]
    assert data["sts"]["average"] == pytest.approx(73.0)
    sts14 = data["sts"]["sts14"]
    assert set(sts14) == {"spearman", "pearson", "subsets", "n", "complete", "by_length"}
    assert sts14["spearman"] == {"all": 72.0, "mean": 73.0, "wmean": 74.0}
    assert set(sts14["pearson"]) == {"all", "mean", "wmean"}
    assert sts14["subsets"]["deft-news"] == {"spearman": 72.1, "pearson": 71.9, "n": 3}
    assert set(data["data"]) == {"source", "text", "sha256"}
    assert set(data["environment"]) == {
        "python", "torch", "transformers", "numpy", "scipy", "platform", "cpu_count", "device", "commit",
    }  # fmt: skip
    assert data["environment"]["numpy"] == version("numpy")
    created = datetime.fromisoformat(data["created"])
    assert created.utcoffset() == timedelta(0)
    assert os.listdir(path.parent) == ["sts.json"]  # noqa: PTH208 - hidden files too


def rendered_wide(table: Table) -> str:
    console = Console(width=200, file=io.StringIO())
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_mark_has_its_note_first() -> None:
    rows: list[TableRow] = [["[bold]a", Cell(50.0), Cell(None)], ["b", Cell(60.0, complete=False), Cell(1.0)]]
    table = results_table("title", ["Model"], ["one", "two"], rows, ["more", None], data="number of pairs")
    assert table.caption == "* not the published number of pairs: does not compare with published values\nmore"
    text = rendered_wide(table)
    assert "[bold]a" in text
    assert "60.00*" in text


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


def test_several_columns_of_names_are_numbered_one_after_another() -> None:
    rows: list[TableRow] = [[model, data, Cell(50.0)] for model in LONG for data in ("d" * 30, "e" * 30)]
    text = rendered_at(results_table("title", ["System", "Data set"], ["nDCG@10"], rows), 40)
    assert text.splitlines()[:4] == [f"1 = {LONG[0]}", f"2 = {LONG[1]}", "3 = " + "d" * 30, "4 = " + "e" * 30]
    assert [line.split("│")[1:3] for line in text.splitlines() if line.startswith("│")] == [
        [f" {model}      ", f" {data}        "] for model in (1, 2) for data in (3, 4)
    ]


def test_more_columns_than_fit_are_in_several_tables() -> None:
    names = [f"a/model/of/some/length/{number}" for number in range(9)]
    rows = [[name, *[f"{10 * number + place}.25" for place in range(8)]] for number, name in enumerate(names)]
    table = FittingTable(TableContent(["System"], COLUMNS, rows), title="the title", caption="the note")
    text = rendered_at(table, 40)
    assert max(map(len, text.splitlines())) <= 40
    assert all(text.count(f" {cell} ") == sum(row.count(cell) for row in rows) for row in rows for cell in row[1:])
    assert text.count("the title") == text.count("the note") == 1
    assert text.index("the title") < text.index("10.25") < text.index("82.25") < text.index("the note")


def test_the_sentences_of_a_comparison_are_folded_between_words() -> None:
    verdict = "+1.20 (95% interval +0.30 to +2.10), p = .012: better"
    rows = [["bert", "simcse", "3", "71.20 ± 0.42", verdict], ["bert", "esimcse", "3", "72.40 ± 0.10", "baseline"]]
    text = rendered_at(Grid(["start", "recipe", "seeds", "sts.average", "difference"], rows).rich("title"), 60)
    assert all(f" {word} " in text for row in rows for word in (*row[1:3], row[3], *row[4].split()))
    assert "start: bert" in text
