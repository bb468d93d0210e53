"""Rows that are not of the trained encoder as it is: untrained, whitened, or by another aggregation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.evaluation import Sts, load_sts
from opencse.evaluation.models.opening import open_model
from opencse.evaluation.suite import Options
from opencse.evaluation.suites import suite_named
from opencse.evaluation.transforms import postprocessed, refitted_each_call
from opencse.recipes.judged import Judged
from opencse.studies.reproduction import paper_row, reproduced
from opencse.studies.running import run_study
from opencse.studies.study import RunSpec, Study, SuiteChoice
from opencse.text.readers import Source

SETTINGS = ("training.max_steps=2", "training.batch_size=8", "training.learning_rate=1e-3", "encoder.pooling=mean")


@pytest.fixture
def study(small_sts: Path, tiny_folder: Path, tmp_path: Path, sentences: list[str]) -> Study:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(sentences[:60]) + "\n")
    return Study(
        text=Source(str(text)),
        out=tmp_path / "study",
        recipes=["simcse"],
        starts=[str(tiny_folder)],
        seeds=[1],
        suites=[SuiteChoice("sts", small_sts)],
        dev=None,
        settings=SETTINGS,
        judge="kept",
    )


def test_a_whitening_after_training_is_fitted_on_the_text(study: Study, small_sts: Path) -> None:
    made = replace(study, judged=Judged(transform="whitening"), groupings=("wmean", "over_3"))
    found = reproduced(run_study(made))
    trained = open_model(study.folder(RunSpec("simcse", study.starts[0], 1)))
    whitened = postprocessed(trained, "whitening", study.text)
    result = Sts().evaluate(whitened, load_sts(small_sts)).record
    assert found["sts.average"].mean == pytest.approx(result.sts.average)
    assert found["sts_wmean.sts12"].mean == pytest.approx(result.sts.tasks["sts12"].spearman.wmean)
    assert found["sts_wmean.average"].mean == pytest.approx(result.sts.mean_over_tasks("spearman", "wmean"))
    split = result.sts.tasks["sts13"].by_length
    assert split is not None
    assert found["sts_over_3.sts13"].mean == pytest.approx(split.over_3.spearman)
    plain = Sts().evaluate(trained, load_sts(small_sts)).record
    assert plain.sts.average != result.sts.average


@pytest.mark.parametrize("fit", ["text", "target"])
def test_an_untrained_row_trains_nothing(study: Study, small_sts: Path, fit: str) -> None:
    judged = Judged.model_validate({"trained": False, "transform": "whitening", "fit": fit})
    how = Options(apart=judged.on_target)
    records = run_study(replace(study, judged=judged, suites=[SuiteChoice("sts", small_sts, how)]))
    assert [record.recipe for record in records] == [None]
    assert not (study.out / "runs").exists()
    start = open_model(SentenceEncoder.load(study.starts[0], pooling="mean"))
    model = postprocessed(start, "whitening", study.text) if fit == "text" else refitted_each_call(start, "whitening")
    wanted = suite_named("sts").open(small_sts, how).evaluate(model).record.values()
    assert reproduced(records)["sts.average"].mean == pytest.approx(wanted["sts.average"])
    assert run_study(replace(study, judged=judged, suites=[SuiteChoice("sts", small_sts, how)])) == records


def test_rows_say_how_their_encoder_is_evaluated() -> None:
    row = paper_row("simcse:untrained-bert-whitening-target")
    assert row.start == "google-bert/bert-base-uncased"
    assert row.groupings == ["wmean"]
    assert row.judged.on_target
    lines = "\n".join(row.lines("sample", 0))
    assert "untrained, whitening fitted on the evaluated sentences" in lines
    assert "in nothing known" in lines, "nothing is selected where nothing is trained"
    assert paper_row("simcse:flow").expected["sts.average"] == 72.24
    plain = paper_row("simcse:crop-10")
    assert plain.groupings == []
    assert paper_row("simcse:bert-base").groupings == ["wmean", "up_to_3", "over_3"]
    assert "evaluated" not in "\n".join(plain.lines("dev.tsv", 0))
