"""Runs are evaluated the same way, kept as they finish, not made twice, and the same in several processes."""

from __future__ import annotations

import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forked import Forks
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import InterruptedRunError, UserError
from opencse.evaluation import EmbeddingModel, Sts, load_sts
from opencse.evaluation.models.opening import open_model
from opencse.evaluation.suite import Options
from opencse.evaluation.suites import suite_named
from opencse.evaluation.transforms import postprocessed, refitted_each_call
from opencse.progress import Progress
from opencse.recipes.files import Judged
from opencse.runs.finish import TrainResult
from opencse.runs.run import Run
from opencse.studies import running
from opencse.studies.comparison import compare, reproduced
from opencse.studies.running import read_arrays, run_study
from opencse.studies.study import RunSpec, Study, StudyRecord, SuiteChoice
from opencse.training.step import Step

Finished = tuple[Study, list[StudyRecord]]


def by_run(records: list[StudyRecord]) -> dict[tuple[str | None, int | None], dict[str, float]]:
    return {(record.recipe, record.seed): record.results for record in records}


@pytest.mark.slow
def test_what_is_finished_is_not_made_again(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run_study(replace(study, seeds=[1]))
    trained: list[str] = []
    run = Run.train

    def spy(self: Run, out: str | Path, *, resume: bool, progress: Progress) -> TrainResult:
        trained.append(str(out))
        return run(self, out, resume=resume, progress=progress)

    monkeypatch.setattr(Run, "train", spy)
    records = run_study(study)
    assert len(trained) == 2
    assert all("/2" in folder for folder in trained)
    assert records[:3] == first
    assert run_study(study) == records
    assert len(trained) == 2


@pytest.mark.slow
def test_further_seeds_of_dropout_keep_every_run(study: Study) -> None:
    def crossed(*dropout: int) -> Study:
        pairs = dict(enumerate(((order, one) for order in (1, 2) for one in dropout), start=1))
        return replace(study, recipes=["simcse"], seeds=list(pairs), pairs=pairs)

    few = run_study(crossed(1))
    records = run_study(crossed(1, 2))
    assert [(r.seed, r.data_seed, r.dropout_seed) for r in records[1:]] == [(1, 1, 1), (2, 1, 2), (3, 2, 1), (4, 2, 2)]
    assert (few[2].seed, few[2].data_seed, few[2].results) == (2, 2, records[3].results), "numbered 3 from then on"
    assert len(compare(records, "simcse").rows[0].scores) == 4


@pytest.mark.slow
def test_broken_off_inside_a_run_it_goes_on_and_ends_the_same(
    study: Study, finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = replace(study, settings=(*study.settings, "training.checkpoint_every=1"))
    calls: list[int] = []
    gradients = Step.gradients

    def dies(self: Step, batches: list[object]) -> object:
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return gradients(self, batches)  # type: ignore[arg-type]

    monkeypatch.setattr(Step, "gradients", dies)
    with pytest.raises(InterruptedRunError):
        run_study(study)
    assert len(list(study.out.rglob("record.json"))) == 2, "the start and the first run"
    assert by_run(run_study(study)) == by_run(finished[1])
    assert len(calls) == 5 + 2 + 6, "the second run went on after its first step"


AT_ONCE = """
import multiprocessing, pickle, sys
from pathlib import Path
from helpers import Heard
from opencse.studies.running import run_study

fork, told = multiprocessing.get_context("fork"), Heard()
multiprocessing.get_context = lambda method: fork
study = pickle.loads(Path(sys.argv[1]).read_bytes())
Path(sys.argv[1]).write_bytes(pickle.dumps((run_study(study, workers=2, progress=told), told.said)))
"""


@pytest.mark.slow
def test_several_processes_give_the_same(study: Study, finished: Finished, tmp_path: Path, forked: Forks) -> None:
    """The processes are forked from one that has made the imports, which take longer than the runs."""
    program, file = tmp_path / "at_once.py", tmp_path / "asked"
    program.write_text(AT_ONCE)
    file.write_bytes(pickle.dumps(study))
    running = forked.start(file, program=program)
    assert running.wait() == 0, running.communicate()
    records, said = pickle.loads(file.read_bytes())
    ended = [line for line in said if line.startswith("run ")]
    assert len(ended) == len(list(study.runs()))
    assert ended[-1].startswith(f"run {len(ended)} of {len(ended)}: ")
    one, two = by_run(finished[1]), by_run(records)
    assert one.keys() == two.keys()
    for run, results in one.items():
        assert two[run] == pytest.approx(results, abs=0.5), "threads differ, so rounding may"


def test_faults_are_told_before_the_first_run(study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "run_one", lambda *a: pytest.fail("a run was made"))
    with pytest.raises(UserError, match="unknown recipe 'simsce'"):
        run_study(replace(study, recipes=["simcse", "simsce"]))
    with pytest.raises(UserError, match="no such folder"):
        run_study(replace(study, suites=[SuiteChoice("sts", tmp_path / "nothing")]))
    with pytest.raises(UserError, match="workers is at least 1"):
        run_study(study, workers=0)


def test_only_a_new_folder_or_a_comparison_is_written_to(study: Study, tmp_path: Path) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    (out / "comparison.md").write_text("my notes")
    with pytest.raises(UserError, match="mine: is not empty"):
        run_study(replace(study, out=out))
    assert [path.name for path in out.iterdir()] == ["comparison.md"]
    with pytest.raises(UserError, match="is a file"):
        run_study(replace(study, out=out / "comparison.md"))


@pytest.mark.slow
def test_every_run_leaves_a_record_that_tells_all(finished: Finished, small_sts: Path) -> None:
    study, records = finished
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
    again = Sts().evaluate(EmbeddingModel("m", SentenceEncoder.load(folder).encode), data)
    assert again.values() == pytest.approx(record.results)


@pytest.mark.slow
def test_a_start_is_judged_as_training_begins_and_as_it_was_given(
    study: Study, tiny_folder: Path, tmp_path: Path
) -> None:
    """A folder with mean pooling of its own, trained at [CLS] by one recipe, by its mean by another."""
    folder, settings = tmp_path / "own", study.settings[:-2]
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


@pytest.mark.slow
def test_a_run_asked_for_otherwise_is_refused(study: Study) -> None:
    run_study(replace(study, seeds=[1], recipes=["simcse"]))
    other = replace(study, seeds=[1], recipes=["simcse"], settings=(*study.settings, "objective.temperature=0.1"))
    with pytest.raises(UserError, match=r"was made with another recipe.objective.temperature .0.05 then, 0.1 now"):
        run_study(other)
    with pytest.raises(UserError, match="was made with another judge"):
        run_study(replace(study, seeds=[1], recipes=["simcse"], judge="last"))


@pytest.mark.slow
@pytest.mark.parametrize("what", ["the text", "the start"])
def test_what_was_made_of_other_content_is_not_averaged_with_the_new(study: Study, tmp_path: Path, what: str) -> None:
    start = tmp_path / "start"
    shutil.copytree(study.starts[0], start)
    study = replace(study, starts=[str(start)], recipes=["simcse"])
    run_study(replace(study, seeds=[1]))
    changed = {
        "the text": (Path(study.text.location), "a", "o"),
        "the start": (start / "config.json", '"hidden_dropout_prob": 0.1', '"hidden_dropout_prob": 0.2'),
    }
    file, old, new = changed[what]
    content = file.read_text()
    assert old in content
    file.write_text(content.replace(old, new))
    before = {path: path.stat().st_mtime_ns for path in study.out.rglob("*")}
    with pytest.raises(UserError, match=f"{what}.* changed after this run was made"):
        run_study(study)
    assert {path: path.stat().st_mtime_ns for path in study.out.rglob("*")} == before
    file.write_text(content)
    assert len(run_study(study)) == 3


@pytest.fixture
def published_study(study: Study) -> Study:
    settings = (*study.settings, "training.max_steps=2")
    return replace(study, recipes=["simcse"], seeds=[1], dev=None, settings=settings)


def test_a_whitening_after_training_is_fitted_on_the_text(published_study: Study, small_sts: Path) -> None:
    made = replace(published_study, judged=Judged(transform="whitening"), groupings=("wmean", "over_3"))
    found = reproduced(run_study(made))
    trained = open_model(published_study.folder(RunSpec("simcse", published_study.starts[0], 1)))
    whitened = postprocessed(trained, "whitening", published_study.text)
    result = Sts().evaluate(whitened, load_sts(small_sts))
    assert found["sts.average"].mean == pytest.approx(result["average", "spearman"].value)
    for name, task, measure in (
        ("sts_wmean.sts12", "sts12", "spearman.wmean"),
        ("sts_wmean.average", "average", "spearman.wmean"),
        ("sts_over_3.sts13", "sts13", "spearman.over_3"),
    ):
        assert found[name].mean == pytest.approx(result[task, measure].value)
    plain = Sts().evaluate(trained, load_sts(small_sts))
    assert plain.values()["sts.average"] != result.values()["sts.average"]


def test_an_untrained_row_trains_nothing(published_study: Study, small_sts: Path) -> None:
    judged = Judged.model_validate({"trained": False, "transform": "whitening", "fit": "target"})
    how = Options(apart=judged.on_target)
    study = replace(published_study, judged=judged, suites=[SuiteChoice("sts", small_sts, how)])
    records = run_study(study)
    assert [record.recipe for record in records] == [None]
    assert not (published_study.out / "runs").exists()
    start = open_model(SentenceEncoder.load(published_study.starts[0], pooling="mean", layers=1))
    model = refitted_each_call(start, "whitening")
    wanted = suite_named("sts").open(small_sts, how).evaluate(model).values()
    assert reproduced(records)["sts.average"].mean == pytest.approx(wanted["sts.average"])
    assert run_study(study) == records
