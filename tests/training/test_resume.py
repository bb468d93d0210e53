"""A resumed run is the same run: bit for bit, wherever it was stopped."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from forked import Forks
from helpers import Stopped, json_in
from opencse.errors import InterruptedRunError
from opencse.runs.run import Run
from opencse.text import sample
from opencse.text.readers import Source
from opencse.training.callbacks import Callback

pytestmark = pytest.mark.slow

SETTINGS = (
    "training.batch_size=8",
    "training.evaluate_every=15",
    "training.checkpoint_every=4",
    "training.log_every=1",
    "training.learning_rate=1e-3",
    "training.precision=float32",
    "encoder.pooling=mean",
    "encoder.layers=1",
    'objective.terms=[{kind="mlm"}]',
)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory, sentences: list[str]) -> Path:
    """Enough sentences to hold some out and ask about them."""
    path = tmp_path_factory.mktemp("resume") / "text.txt"
    path.write_text("\n".join(sentences[:1200]))
    return path


def files(folder: Path) -> dict[str, bytes]:
    names = ("model.safetensors", "last/model.safetensors", "metrics.jsonl")
    return {name: (folder / name).read_bytes() for name in names}


def progress(out: Path) -> tuple[int, int, int]:
    """The step that a run would continue after, how many it has logged, and when it did."""
    state, log = out / "checkpoint" / "state.json", out / "metrics.jsonl"
    step = json_in(state)["step"] if state.is_file() else 0
    return (step, log.read_text().count("\n"), log.stat().st_mtime_ns) if log.is_file() else (step, 0, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked on this system")
def test_killed_at_random_points_gives_the_uninterrupted_run(
    tiny_folder: Path, text: Path, tmp_path: Path, forked: Forks
) -> None:
    whole, broken, dev = tmp_path / "whole", tmp_path / "broken", tmp_path / "dev.tsv"
    dev.write_text("".join(sample.DEV.read_text().splitlines(keepends=True)[:40]))
    settings = [part for one in (*SETTINGS, "training.max_steps=40") for part in ("--set", one)]
    given = ["train", text, "--model", tiny_folder, "--dev", dev, "--device", "cpu", "--no-report", *settings]
    code, _, told = forked.run(*given, "--out", whole)
    assert code == 0, told
    record = json_in(whole / "run.json")
    draw, reached = random.Random(5), set()
    for _ in range(5):
        step, _, before = progress(broken)
        life, delay = draw.randint(1, 6), draw.random() * record["seconds"] / record["steps"]
        run = forked.start(*given, "--out", broken, *(["--resume"] if (broken / "run.json").exists() else []))
        while (now := progress(broken))[1] < step + life or now[2] == before:
            assert run.poll() is None, run.communicate()
            time.sleep(0.002)
        time.sleep(delay)
        run.kill()
        assert run.wait() == -signal.SIGKILL, "the run ended before five kills; give it more steps"
        reached.add(progress(broken)[0])
    assert len(reached) > 1, "no life got beyond a checkpoint, so nothing was resumed"
    code, _, told = forked.run(*given, "--out", broken, "--resume")
    assert code == 0, told
    assert files(broken) == files(whole)
    scores = [json_in(f / "run.json")["result"]["scores"] for f in (whole, broken)]
    assert scores[0] == scores[1]
    assert not (broken / "checkpoint").exists()


@pytest.fixture(scope="module")
def of_24_steps(tiny_folder: Path, text: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    """A job, and the folder of its uninterrupted run."""
    job = Run(text=Source(str(text)), model=str(tiny_folder), settings=(*SETTINGS, "training.max_steps=24"))
    folder = tmp_path_factory.mktemp("uninterrupted") / "whole"
    job.train(folder)
    return job, folder


@pytest.mark.parametrize("stop", [1, 22])
def test_stopped_by_a_signal_loses_no_step(of_24_steps: tuple[Run, Path], tmp_path: Path, stop: int) -> None:
    job, whole = of_24_steps
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(InterruptedRunError, match=f"step {stop}"):
        job.train(tmp_path / "stopped", progress=Stopped(stop))
    assert signal.getsignal(signal.SIGTERM) == before
    state = json_in(tmp_path / "stopped" / "checkpoint" / "state.json")
    assert state["step"] == stop
    job.train(tmp_path / "stopped", resume=True)
    assert files(tmp_path / "stopped") == files(whole)


def test_slow_steps_are_saved_by_the_clock(
    tiny_folder: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[int] = []

    class Saved(Callback):
        def on_checkpoint(self, step: int, folder: Path) -> None:
            saved.append(step)

    monkeypatch.setattr("opencse.training.trainer._AT_LEAST_EVERY", 0.0)
    settings = (*SETTINGS, "training.max_steps=4", "training.checkpoint_every=100")
    Run(text=Source(str(text)), model=str(tiny_folder), settings=settings, callbacks=(Saved(),)).train(tmp_path / "r")
    assert saved == [1, 2, 3]


def test_resume_refuses_another_run(tiny_folder: Path, text: Path, tmp_path: Path) -> None:
    from opencse.errors import UserError

    job = Run(text=Source(str(text)), model=str(tiny_folder), settings=(*SETTINGS, "training.max_steps=10"))
    with pytest.raises(InterruptedRunError):
        job.train(tmp_path / "run", progress=Stopped(9))
    other = Run(text=Source(str(text)), model=str(tiny_folder), settings=(*SETTINGS, "training.max_steps=30"))
    with pytest.raises(UserError, match=r"another recipe\.training\.max_steps \(10 then, 30 now\)"):
        other.train(tmp_path / "run", resume=True)
    with pytest.raises(UserError, match="continue it with --resume"):
        job.train(tmp_path / "run")
    result = job.train(tmp_path / "run", resume=True)
    again = job.train(tmp_path / "run", resume=True)
    assert again == result
