import json
import os
from datetime import datetime, timedelta
from importlib.metadata import version
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from opencse.environment import Environment
from opencse.errors import UserError
from opencse.evaluation import (
    TASKS,
    Aggregates,
    DataRecord,
    EvaluationRecord,
    Score,
    StsResult,
    StsScores,
    TaskScore,
    sts_table,
)
from opencse.records import save_json


def task_score(key: str, value: float) -> TaskScore:
    task = TASKS[key]
    values = Aggregates(all=value, mean=value + 1, wmean=value + 2)
    subsets = {
        name: Score(spearman=value + k / 10, pearson=value - k / 10, n=k + 2) for k, name in enumerate(task.subsets)
    }
    pearson = Aggregates(all=value - 1, mean=value - 2, wmean=value - 3)
    return TaskScore(spearman=values, pearson=pearson, subsets=subsets, n=task.pairs, complete=True)


def result_of(tasks: dict[str, TaskScore]) -> StsResult:
    return StsResult(
        model="m",
        pooling="cls",
        data=DataRecord(source="folder", text="prepared", sha256=dict.fromkeys(tasks, "0" * 64)),
        environment=Environment.here("cpu"),
        seconds=1.5,
        sts=StsScores.of(tasks),
    )


@pytest.fixture
def full() -> StsResult:
    return result_of({key: task_score(key, 70.0 + i) for i, key in enumerate(TASKS)})


def rendered(table: Table) -> str:
    console = Console(width=160, file=None, record=True, quiet=False, force_terminal=False)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


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


def test_result_read_back_is_the_same(full: StsResult, tmp_path: Path) -> None:
    full.write_json(tmp_path / "r.json")
    assert StsResult.read_json(tmp_path / "r.json") == full


def test_values_are_flat_and_leave_out_what_is_not_there(full: StsResult) -> None:
    values = full.values()
    assert list(values) == [*(f"sts.{key}" for key in TASKS), "sts.average"]
    assert values["sts.sts14"] == 72.0
    assert values["sts.average"] == pytest.approx(73.0)
    assert result_of({"stsb": full.sts.tasks["stsb"]}).values() == {"sts.stsb": 75.0}
    record = EvaluationRecord(data=full.data, environment=full.environment, seconds=1.0)
    assert record.values() == {}


def test_missing_tasks_leave_no_key_and_no_average(full: StsResult) -> None:
    some = result_of({key: full.sts.tasks[key] for key in ("sts12", "stsb")})
    assert some.to_dict()["sts"].keys() == {"sts12", "stsb", "average"}
    assert some.sts.average is None


def test_average_of_other_aggregations(full: StsResult) -> None:
    assert full.sts.mean_over_tasks("spearman", "wmean") == pytest.approx(75.0)
    assert full.sts.mean_over_tasks("pearson", "all") == pytest.approx(72.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read as a result"),
        ("{", "cannot be read as a result"),
        ("[]", "a result is a JSON object, this file holds a list"),
        ('{"schema_version": 2}', "schema_version"),
    ],
)
def test_files_that_are_no_result_are_told(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "r.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message) as caught:
        StsResult.read_json(path)
    assert str(path) in str(caught.value)


def test_unwritable_places_are_told_and_leave_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(UserError, match="cannot be written"):
        save_json(tmp_path / "file" / "r.json", {})
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match="cannot be written"):
        save_json(tmp_path / "folder", {})
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="is not a regular file"):
        save_json(tmp_path / "pipe", {})
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "folder", "pipe"]


def test_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    save_json(tmp_path / "link.json", {"a": 1})
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text(encoding="utf-8")) == {"a": 1}


def test_full_disk_is_told_and_the_old_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.json"
    save_json(path, {"old": 1})

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(UserError, match=r"r.json: cannot be written \(No space left on device\)"):
        save_json(path, {"new": 2})
    assert json.loads(path.read_text(encoding="utf-8")) == {"old": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.json"]


def test_values_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        Score(spearman=float("nan"), pearson=0.0, n=3)


def test_table_has_a_row_a_model(full: StsResult) -> None:
    some = result_of({"stsb": full.sts.tasks["stsb"].model_copy(update={"complete": False})})
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
    some = result_of(
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
