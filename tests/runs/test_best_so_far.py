"""The end of a run, finished or stopped: which encoder is in the folder, and the way to continue or to end it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import opencse
from helpers import Broken, Heard, Run, Stopped, accepted, write_lines
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import fingerprint
from opencse.environment import Environment
from opencse.errors import InterruptedRunError, UserError
from opencse.outputs import LOCK
from opencse.runs import folder as folders
from opencse.runs.finish import TrainResult, choose_so_far
from opencse.runs.folder import FolderState, RunFolder
from opencse.runs.record import Identity, RunRecord
from opencse.runs.run import Run as TrainRun
from opencse.text import sample
from opencse.text.corpus import CorpusFacts
from opencse.text.readers import Source
from opencse.training.checkpoint import load_checkpoint
from opencse.training.selection import DevScore, GradedPairSelector, History, OwnPoolingScore

SETTINGS = (
    "training.epochs=10",
    "training.max_steps=6",
    "training.batch_size=4",
    "training.checkpoint_every=3",
    "training.log_every=1",
    "training.evaluate_every=2",
    "training.learning_rate=1e-3",
    "training.precision=float32",
    "encoder.pooling=mean",
)


TEXTS = ["A dog barks.", "It rains in the hills."]


@pytest.fixture
def job(tiny_folder: Path, sentences: list[str], tmp_path: Path) -> TrainRun:
    write_lines(tmp_path / "text.txt", sentences[:24])
    text = Source(str(tmp_path / "text.txt"))
    return TrainRun(text=text, model=str(tiny_folder), settings=SETTINGS, dev="sample", device="cpu")


def stopped(job: TrainRun, out: Path, step: int) -> str:
    with pytest.raises(InterruptedRunError) as caught:
        job.train(out, progress=Stopped(step))
    return str(caught.value)


def files(folder: Path) -> dict[str, bytes]:
    names = ("model.safetensors", "last/model.safetensors", "metrics.jsonl", "README.md")
    return {name: (folder / name).read_bytes() for name in names}


def record(*, dev: str | None = "sample", given: OwnPoolingScore | None = None) -> RunRecord:
    return RunRecord(
        identity=Identity(recipe={}, model="m", text="", precision="float32", dev=dev),
        source="text.txt",
        corpus=CorpusFacts("", "", 1, 1, 1, 0, 0, 0, 32),
        steps=10,
        environment=Environment.here("cpu"),
        given=given,
    )


@pytest.mark.parametrize(
    ("scores", "given", "kept", "step"),
    [
        ({0: 50.0}, None, "last", 7),
        ({0: 50.0, 2: 49.0, 4: 51.0, 6: 50.5}, None, "best", 4),
        ({0: 50.0, 2: 49.0, 4: 51.0}, OwnPoolingScore("cls", 52.0), "given", None),
        ({0: 50.0, 2: 53.0, 4: 51.0}, OwnPoolingScore("cls", 52.0), "best", 2),
    ],
)
def test_what_is_kept(scores: dict[int, float], given: OwnPoolingScore | None, kept: str, step: int | None) -> None:
    history = History({at: DevScore(value) for at, value in scores.items()})
    chosen = choose_so_far(record(given=given), history, 7)
    assert (chosen.kept, chosen.step, chosen.steps) == (kept, step, 7)
    assert chosen.verdict.startswith("stopped after step 7 of 10; ")


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 5])
def test_a_stopped_run_leaves_a_model_and_still_continues_bit_for_bit(job: TrainRun, tmp_path: Path, step: int) -> None:
    job.train(tmp_path / "whole")
    told = stopped(job, tmp_path / "run", step)
    assert told.startswith(f"stopped after step {step} of 6; ")
    assert "--resume" in told
    assert f"opencse finish {tmp_path / 'run'}" in told
    run = RunFolder(tmp_path / "run")
    assert run.state() is FolderState.BEGUN
    checkpoint = load_checkpoint(run.checkpoint)
    assert checkpoint is not None
    left = SentenceEncoder.load(run.path, device="cpu")
    if step == 1:  # before the first evaluation
        assert "no trained step has been evaluated yet" in told
        weights = load_file(run.path / "model.safetensors")
        inside = checkpoint.of("encoder")
        assert all(torch.equal(tensor, inside[f"backbone.{name}"]) for name, tensor in weights.items())
    assert np.isfinite(left.encode(TEXTS)).all()
    job.train(run.path, resume=True)
    assert files(run.path) == files(tmp_path / "whole")


@pytest.mark.slow
def test_finish_makes_a_model_of_a_killed_run_which_still_continues(
    job: TrainRun, tmp_path: Path, opencse: Run
) -> None:
    job.train(tmp_path / "whole")
    with pytest.raises(RuntimeError, match="killed"):
        job.train(tmp_path / "run", progress=Broken(5, RuntimeError("killed")))
    run = RunFolder(tmp_path / "run")
    assert not (run.path / "config.json").exists()
    code, out, err = opencse("finish", run.path)
    assert (code, out.strip()) == (0, str(run.path)), err
    assert "stopped after step 3 of 6" in err
    assert run.state() is FolderState.FINISHED
    finished = run.record()
    assert finished.result is not None
    assert finished.ended_early
    assert finished.result.steps == 3
    assert "stopped after step 3 of 6" in (run.path / "README.md").read_text()
    assert "Training curves" in (run.path / "report.html").read_text()
    for folder in (run.path, run.last):
        assert SentenceEncoder.load(folder, device="cpu").encode(TEXTS).shape == (2, 32)

    before = (run.path / "run.json").read_bytes()
    _, err = accepted(opencse("finish", run.path))
    assert "this run has finished already: stopped after step 3 of 6" in err
    assert (run.path / "run.json").read_bytes() == before

    heard = Heard()
    job.train(run.path, resume=True, progress=heard)
    assert any(line.startswith("reopened   the run was finished at step 3 of 6") for line in heard.said)
    assert files(run.path) == files(tmp_path / "whole")
    assert not run.checkpoint.exists()
    _, err = accepted(opencse("finish", run.path))
    assert "this run has finished already" in err


def test_what_holds_no_run_is_refused(tmp_path: Path, tiny_folder: Path, opencse: Run) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("a")
    (tmp_path / "study" / "runs" / "a" / "b" / "1").mkdir(parents=True)
    (tmp_path / "study" / "runs" / "a" / "b" / "1" / "run.json").write_text("{}")
    expected = {
        tmp_path / "none": "no such folder",
        tmp_path / "notes": "holds no run",
        tmp_path / "study": "holds a comparison",
        tiny_folder: "holds a model and no run",
    }
    for folder, told in expected.items():
        before = sorted(path.name for path in folder.rglob("*")) if folder.exists() else []
        code, out, err = opencse("finish", folder)
        assert (code, out, len(err.splitlines())) == (2, "", 1), err
        assert told in err
        assert (sorted(path.name for path in folder.rglob("*")) if folder.exists() else []) == before


@pytest.mark.slow
def test_a_run_before_its_first_checkpoint_and_one_that_goes_on_are_refused(job: TrainRun, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        job.train(tmp_path / "run", progress=Broken(2, RuntimeError("killed")))
    with pytest.raises(UserError, match="before its first checkpoint"):
        opencse.finish(tmp_path / "run")
    with folders.held(tmp_path / "run" / LOCK), pytest.raises(UserError, match=r"still running.*in use by another"):
        opencse.finish(tmp_path / "run")


QUICK = [
    "training.max_steps=2",
    "training.evaluate_every=1",
    "training.batch_size=8",
    "training.precision=float32",
    "training.learning_rate=1e-3",
]


@pytest.mark.slow
@pytest.mark.parametrize(("scores", "kept"), [((50.0, 60.0, 55.0), "best"), ((50.0, 40.0, 30.0, 40.0, 50.0), "start")])
def test_the_kept_encoder_the_last_one_and_the_record(
    scores: tuple[float, ...], kept: str, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = iter(scores)
    monkeypatch.setattr(GradedPairSelector, "score", lambda self, encoder: DevScore(next(values)))
    monkeypatch.setattr(GradedPairSelector, "worse", lambda self, trained, start: True)
    result = opencse.train(sample.TRAIN, tmp_path / "out", model=str(tiny_folder), settings=QUICK, dev="sample")
    folder = RunFolder(tmp_path / "out")
    record = folder.record()
    assert record.result is not None
    assert result.kept == record.result.kept == kept
    assert TrainResult.of(folder, record.result, result.plan) == result
    assert (record.result.step, record.result.steps) == (1 if kept == "best" else 0, 2)
    assert not folder.has_checkpoint()
    encoder = SentenceEncoder.load(folder.path)
    start = SentenceEncoder.load(tiny_folder, pooling=encoder.pooling)
    assert (fingerprint(encoder) == fingerprint(start)) == (kept == "start")
    assert fingerprint(SentenceEncoder.load(folder.last)) != fingerprint(encoder), "the last step is another one"
