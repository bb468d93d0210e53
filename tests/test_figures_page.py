"""The page of the papers' pictures is what its record makes, which is gathered from a report and the runs' logs."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

import helpers
from opencse import SentenceEncoder
from opencse.analysis.inspection import AnalysisTexts, Subject, inspect
from opencse.environment import Environment
from opencse.evaluation import read_scored_pairs
from opencse.evaluation.embedding import EmbeddingModel
from opencse.records import save_json
from opencse.studies.record import StudyRecord
from opencse.text import sample

script = helpers.script_of_docs("build_figures")


def test_the_page_is_up_to_date(script: ModuleType) -> None:
    record = json.loads(script.RECORD.read_text(encoding="utf-8"))
    page, pictures = script.page(record), script.pictures(record)
    assert script.PAGE.read_text(encoding="utf-8") == page, "run python docs/build_figures.py"
    assert len(pictures) == 3
    for name in pictures:
        assert f"figures/{name}" in page
        assert (script.FIGURES / name).is_file()
    assert next(iter(record["encoders"])) == script.START


def test_it_is_gathered_from_a_report_and_the_logs(script: ModuleType, tiny_folder: Path, tmp_path: Path) -> None:
    encoder = SentenceEncoder.load(tiny_folder, device="cpu")
    names = ("models/START", "simcse/42/last", "sscl/42/last")
    subjects = [Subject(EmbeddingModel(name, encoder.encode, "mean", "cpu"), encoder) for name in names]
    findings = inspect(subjects, AnalysisTexts(pairs=read_scored_pairs(sample.TEST)), resamples=10)
    save_json(tmp_path / "report.json", findings.model_dump(mode="json"))
    log = [{"step": step, "positive_similarity": 0.9, "negative_similarity": 1 / step} for step in (1, 2)]
    for recipe in ("simcse", "sscl"):
        run = tmp_path / "runs" / recipe / "42"
        run.mkdir(parents=True)
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log), encoding="utf-8")
    record = json.loads(json.dumps(script.gather(tmp_path, tmp_path / "runs")))
    assert list(record["encoders"]) == [script.START, "simcse", "sscl"]
    assert record["encoders"]["sscl"]["negative"] == {"1": 1.0, "2": 0.5}
    assert "negative" not in record["encoders"][script.START]
    geometry = findings.subjects[0].geometry
    assert geometry is not None
    assert record["encoders"]["simcse"]["uniformity"] == round(geometry.uniformity, 4)
    record["paths"] = {"simcse": {"path": [[-1.0, 0.1], [-2.0, 0.2]], "dev": [50.0, 60.0]}}
    assert len(script.pictures(record)) == 3


def test_paths_are_gathered_from_the_logs_of_finished_runs(script: ModuleType, tmp_path: Path) -> None:
    log = [
        {"step": 0, "dev": 50.0, "dev_alignment": 0.1, "dev_uniformity": -1.0},
        {"step": 5, "loss": 2.0},
        {"step": 10, "dev": 61.234, "dev_alignment": 0.2, "dev_uniformity": -2.00004},
    ]
    run = tmp_path / "simcse_learning_rate_4e-4_" / "42"
    run.mkdir(parents=True)
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log), encoding="utf-8")
    with pytest.raises(ValueError, match="the run is not finished"):
        script.gather_paths(tmp_path)
    StudyRecord(
        recipe="simcse (learning_rate=4e-4)", start="m", seed=42, asked={}, judged="last", judge_seconds=1.0,
        environment=Environment.here("cpu"), data={}, results={"dev.stsb": 1.0},
    ).write(run)  # fmt: skip
    assert script.gather_paths(tmp_path) == {"simcse": {"path": [[-1.0, 0.1], [-2.0, 0.2]], "dev": [50.0, 61.23]}}


def test_ranks_are_gathered_from_the_logs(script: ModuleType, tmp_path: Path) -> None:
    for recipe, ranks in (("a_twins", [3, 3]), ("a_twins-10", [13, 12])):
        run = tmp_path / recipe / "42"
        run.mkdir(parents=True)
        log = [{"step": step, "loss": 1.0, "barlow_twins_rank": float(rank)} for step, rank in enumerate(ranks, 1)]
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log), encoding="utf-8")
    assert script.gather_ranks(tmp_path) == {"a_twins": [3], "a_twins-10": [12, 13]}
