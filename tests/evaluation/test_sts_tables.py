"""Tables of STS scores, by task, by subset and by the difference in length."""

from __future__ import annotations

import pytest
from rich.console import Console
from rich.table import Table

from opencse.errors import UserError
from opencse.evaluation import StsResult, StsScores, TaskScore, sts_table
from opencse.evaluation.sts.result import LengthScore, LengthSplit
from opencse.evaluation.sts.tables import length_table, mean_by_length
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


def test_table_of_another_aggregation_and_correlation(full: StsResult) -> None:
    text = rendered(sts_table({"one": full}, aggregation="mean", correlation="pearson"))
    assert "68.00" in text  # 70 - 2
    assert "71.00" in text  # the average, 73 - 2
    assert "published" not in text


def test_table_by_subset(full: StsResult) -> None:
    some = sts_result(
        {"stsb": full.sts.tasks["stsb"], "sts12": full.sts.tasks["sts12"].model_copy(update={"subsets": {}})}
    )
    table = sts_table({"one": full, "two": some}, subsets=True)
    assert table.row_count == 26
    lines = rendered(table).splitlines()
    msrvid = next(line for line in lines if "MSRvid" in line)
    assert [cell.strip() for cell in msrvid.strip("│").split("│")] == ["STS12", "MSRvid", "3", "70.10", "-"]
    pearson = rendered(sts_table({"one": full}, correlation="pearson", subsets=True))
    assert "69.90" in next(line for line in pearson.splitlines() if "MSRvid" in line)
    assert sts_table({"two": some}, subsets=True).row_count == 6


def test_unknown_aggregation_or_correlation(full: StsResult) -> None:
    with pytest.raises(UserError, match=r"unknown aggregation 'weanm' \(did you mean '\w*mean'\?\)"):
        sts_table({"one": full}, aggregation="weanm")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="unknown correlation 'kendall'; known: spearman, pearson"):
        sts_table({"one": full}, correlation="kendall")  # type: ignore[arg-type]


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
