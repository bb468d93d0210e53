"""What the record of a single run of a comparison has, and which encoder and start are evaluated."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from opencse import SentenceEncoder
from opencse.evaluation import EmbeddingModel, Sts, load_sts
from opencse.studies.judging import read_arrays
from opencse.studies.record import StudyRecord
from opencse.studies.running import run_study
from opencse.studies.study import RunSpec, Study

pytestmark = pytest.mark.slow


def test_every_run_leaves_a_record_that_tells_all(study: Study, small_sts: Path) -> None:
    records = run_study(study)
    assert [(r.recipe, r.seed) for r in records] == [
        (None, None), ("simcse", 1), ("esimcse-repetition", 1), ("simcse", 2), ("esimcse-repetition", 2),
    ]  # fmt: skip
    record = records[1]
    assert set(record.results) >= {"sts.sts12", "sts.sickr", "sts.average"}
    assert record.asked["recipe"]["training"]["seed"] == 1
    assert record.environment.torch
    assert record.text
    assert len(record.data["sts"].sha256["stsb"]) == 64
    assert record.outcome is not None
    assert record.outcome.steps == 3
    assert records[1].results != records[3].results, "seeds differ"
    assert StudyRecord.read(study.folder(RunSpec("simcse", study.starts[0], 1))) == record

    folder = study.folder(RunSpec("simcse", study.starts[0], 1))
    arrays = read_arrays(folder, "sts")
    data = load_sts(small_sts)
    assert len(arrays) == 14
    assert np.array_equal(arrays["stsb.gold"], data.tasks["stsb"].parts[0].scores)
    again = Sts().evaluate(EmbeddingModel("m", SentenceEncoder.load(folder).encode), data).record
    assert again.values() == pytest.approx(record.results)


def test_the_last_encoder_is_judged_when_asked(study: Study) -> None:
    study = replace(study, seeds=[1], recipes=["simcse"], judge="last")
    record = run_study(study)[1]
    folder = study.folder(RunSpec("simcse", study.starts[0], 1))
    told = json.loads((folder / "sts.json").read_text())
    assert told["model"] == str(folder / "last")
    assert record.judged == "last"


def test_a_start_is_judged_as_training_begins_and_as_it_was_given(
    study: Study, tiny_folder: Path, tmp_path: Path
) -> None:
    """A folder with mean pooling of its own, trained at [CLS] by one recipe, by its mean by another."""
    folder, settings = tmp_path / "own", study.settings[:-1]
    SentenceEncoder.load(tiny_folder, pooling="mean", device="cpu").save(folder)
    study = replace(study, starts=[str(folder)], seeds=[1], recipes=["simcse", "simcse:first-last"], settings=settings)
    assert [str(reading) for reading in study.readings(str(folder))] == ["as given, mean", "untrained, first_last_0"]
    forced = replace(study, recipes=["simcse"], settings=(*settings, "encoder.pooling=cls", "encoder.layers=2"))
    assert [str(reading) for reading in forced.readings(str(folder))] == [
        "untrained, cls, first 2 layers",
        "as given, mean",
    ]
    records = run_study(forced)
    assert [(r.recipe, r.reading) for r in records] == [
        (None, "untrained, cls, first 2 layers"),
        (None, "as given, mean"),
        ("simcse", "untrained, cls, first 2 layers"),
    ]
    assert records[0].results != records[1].results
    assert [str(reading) for reading in replace(study, starts=[str(tiny_folder)]).readings(str(tiny_folder))] == [
        "untrained, cls",
        "untrained, first_last_0",
    ], "a plain folder was given without a pooling"


def test_what_is_judged_unless_asked_is_the_last_encoder(study: Study) -> None:
    assert Study(study.text, study.out, ["simcse"], study.starts, [1], study.suites).judge == "last"
