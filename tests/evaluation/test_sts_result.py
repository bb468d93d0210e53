"""The scores of an STS evaluation: their keys in JSON, their flat values, and their means."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta
from importlib.metadata import version
from pathlib import Path

import pytest

from opencse.evaluation import TASKS, EvaluationRecord, Score, StsResult
from sts_results import all_tasks, sts_result


@pytest.fixture
def full() -> StsResult:
    return all_tasks()


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
    assert sts_result({"stsb": full.sts.tasks["stsb"]}).values() == {"sts.stsb": 75.0}
    record = EvaluationRecord(data=full.data, environment=full.environment, seconds=1.0)
    assert record.values() == {}


def test_missing_tasks_leave_no_key_and_no_average(full: StsResult) -> None:
    some = sts_result({key: full.sts.tasks[key] for key in ("sts12", "stsb")})
    assert some.to_dict()["sts"].keys() == {"sts12", "stsb", "average"}
    assert some.sts.average is None


def test_average_of_other_aggregations(full: StsResult) -> None:
    assert full.sts.mean_over_tasks("spearman", "wmean") == pytest.approx(75.0)
    assert full.sts.mean_over_tasks("pearson", "all") == pytest.approx(72.0)


def test_values_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        Score(spearman=float("nan"), pearson=0.0, n=3)
