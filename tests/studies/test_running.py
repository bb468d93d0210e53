"""Runs are judged alike, kept as they finish, not made twice, and the same in several processes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from helpers import Heard
from opencse.errors import InterruptedRunError, UserError
from opencse.progress import Progress
from opencse.runs.finish import TrainResult
from opencse.runs.job import TrainJob
from opencse.studies import running
from opencse.studies.comparison import compare
from opencse.studies.record import StudyRecord
from opencse.studies.running import run_study
from opencse.studies.study import Study, SuiteChoice
from opencse.training.step import Step

pytestmark = pytest.mark.slow


def by_run(records: list[StudyRecord]) -> dict[tuple[str | None, int | None], dict[str, float]]:
    return {(record.recipe, record.seed): record.results for record in records}


def test_what_is_finished_is_not_made_again(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run_study(replace(study, seeds=[1]))
    trained: list[str] = []
    run = TrainJob.run

    def spy(self: TrainJob, out: str | Path, *, resume: bool, progress: Progress) -> TrainResult:
        trained.append(str(out))
        return run(self, out, resume=resume, progress=progress)

    monkeypatch.setattr(TrainJob, "run", spy)
    records = run_study(study)
    assert len(trained) == 2
    assert all("/2" in folder for folder in trained)
    assert records[:3] == first
    assert run_study(study) == records
    assert len(trained) == 2


def test_further_seeds_of_dropout_keep_every_run(study: Study) -> None:
    def crossed(*dropout: int) -> Study:
        pairs = dict(enumerate(((order, one) for order in (1, 2) for one in dropout), start=1))
        return replace(study, recipes=["simcse"], seeds=list(pairs), pairs=pairs)

    few = run_study(crossed(1))
    records = run_study(crossed(1, 2))
    assert [(r.seed, r.data_seed, r.dropout_seed) for r in records[1:]] == [(1, 1, 1), (2, 1, 2), (3, 2, 1), (4, 2, 2)]
    assert (few[2].seed, few[2].data_seed, few[2].results) == (2, 2, records[3].results), "numbered 3 from then on"
    assert len(compare(records, "simcse").rows[0].scores) == 4


def test_broken_off_inside_a_run_it_goes_on_and_ends_the_same(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = replace(study, settings=(*study.settings, "training.checkpoint_every=1"))
    whole = by_run(run_study(replace(study, out=tmp_path / "whole")))
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
    assert by_run(run_study(study)) == whole
    assert len(calls) == 5 + 2 + 6, "the second run went on after its first step"


def test_several_processes_give_the_same(study: Study, tmp_path: Path) -> None:
    one = by_run(run_study(study))
    told = Heard()
    two = by_run(run_study(replace(study, out=tmp_path / "parallel"), workers=2, progress=told))
    finished = [line for line in told.said if line.startswith("run ")]
    assert len(finished) == len(list(study.runs()))
    assert finished[-1].startswith(f"run {len(finished)} of {len(finished)}: ")
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
    from opencse.outputs import LOCK
    from opencse.runs.lock import Owner
    from opencse.studies.running import require_study

    killed = tmp_path / "killed"
    (killed / "starts" / "m").mkdir(parents=True)
    for name in ("notes.txt", "mine.json"):
        (killed / "starts" / "m" / name).write_text("mine")
        with pytest.raises(UserError, match="is not empty"):
            require_study(killed)
        (killed / "starts" / "m" / name).unlink()
    require_study(killed)
    (killed / "starts" / "m" / "sts.json").write_text("{}")
    require_study(killed)
    (killed / LOCK).write_text(Owner(process=2**22 + 1).model_dump_json())
    require_study(killed)
