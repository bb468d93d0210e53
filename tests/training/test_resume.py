"""A resumed run is the same run: bit for bit, wherever it was stopped."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers import Stopped
from opencse.errors import InterruptedRunError
from opencse.runs.run import TrainJob
from opencse.text.readers import Source
from opencse.training.callbacks import Callback

pytestmark = pytest.mark.slow

SETTINGS = (
    "training.max_steps=80",
    "training.batch_size=8",
    "training.evaluate_every=15",
    "training.checkpoint_every=4",
    "training.log_every=1",
    "training.learning_rate=1e-3",
    "training.precision=float32",
    "encoder.pooling=mean",
    'objective.terms=[{kind="mlm"}]',
)


LIVES = """
import json, os, signal, sys, threading, traceback
import torch
import transformers.models.bert.modeling_bert
from opencse.training.questions import Guard
from opencse.encoder.encoder import SentenceEncoder
from opencse.progress import Silent
from opencse.runs.run import TrainJob
from opencse.text.readers import Source
torch.set_num_threads(1)
asked = Guard.built_in().questions
few = Guard.of_pairs((query, asked.candidates[answer]) for query, answer in zip(asked.queries[:150], asked.answers))
Guard.built_in = classmethod(lambda cls: few)  # as in the tests' own process

class Killer(Silent):
    def __init__(self, life, delay):
        self.steps, self.life, self.delay = 0, life, delay
    def advance(self, done, note=""):
        self.steps += not note  # a step is told once without a note
        if not note and self.steps == self.life:
            threading.Timer(self.delay, os.kill, (os.getpid(), signal.SIGKILL)).start()

def live(text, model, settings, out, resume, life, delay):
    job = TrainJob(text=Source(text), recipe="simcse", model=model, settings=tuple(settings))
    job.run(out, resume=resume, progress=Killer(life, delay))

for line in sys.stdin:
    process = os.fork()  # imports are made once, for all lives
    if process == 0:
        try:
            live(**json.loads(line))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory, sentences: list[str]) -> Path:
    """Enough sentences to hold some out and ask about them."""
    path = tmp_path_factory.mktemp("resume") / "text.txt"
    path.write_text("\n".join(sentences[:1200]))
    return path


@pytest.fixture
def lives(tiny_folder: Path, text: Path) -> Iterator[Callable[..., int]]:
    """Runs the job in a process of its own, which is killed ``delay`` seconds after ``life`` steps (0: it is not)."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", LIVES], **pipes) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        stdin, stdout = parent.stdin, parent.stdout

        def live(out: Path, *, resume: bool, life: int = 0, delay: float = 0.0) -> int:
            asked = {"text": str(text), "model": str(tiny_folder), "settings": SETTINGS, "out": str(out)}
            stdin.write(json.dumps({**asked, "resume": resume, "life": life, "delay": delay}) + "\n")
            stdin.flush()
            return int(stdout.readline())

        yield live
        stdin.close()


def files(folder: Path) -> dict[str, bytes]:
    names = ("model.safetensors", "last/model.safetensors", "metrics.jsonl")
    return {name: (folder / name).read_bytes() for name in names}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked on this system")
def test_killed_ten_times_at_random_points_gives_the_uninterrupted_run(
    lives: Callable[..., int], tmp_path: Path
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert lives(whole, resume=False) == 0
    record = json.loads((whole / "run.json").read_text())
    steps, seconds = record["steps"], record["seconds"]
    draw = random.Random(5)
    reached = set()
    for _ in range(10):
        life, delay = draw.randint(1, steps // 12), draw.random() * seconds / steps
        code = lives(broken, life=life, delay=delay, resume=(broken / "run.json").exists())
        assert code == -signal.SIGKILL, "the run ended before ten kills; give it more steps"
        state = broken / "checkpoint" / "state.json"
        reached.add(json.loads(state.read_text())["step"] if state.is_file() else 0)
    assert len(reached) > 1, "no life got beyond a checkpoint, so nothing was resumed"
    assert lives(broken, resume=True) == 0
    assert files(broken) == files(whole)
    scores = [json.loads((f / "run.json").read_text())["result"]["scores"] for f in (whole, broken)]
    assert scores[0] == scores[1]
    assert not (broken / "checkpoint").exists()


@pytest.fixture(scope="module")
def of_24_steps(tiny_folder: Path, text: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[TrainJob, Path]:
    """A job, and the folder of its uninterrupted run."""
    job = TrainJob(text=Source(str(text)), model=str(tiny_folder), settings=(*SETTINGS, "training.max_steps=24"))
    folder = tmp_path_factory.mktemp("uninterrupted") / "whole"
    job.run(folder)
    return job, folder


@pytest.mark.parametrize("stop", [1, 22])
def test_stopped_by_a_signal_loses_no_step(of_24_steps: tuple[TrainJob, Path], tmp_path: Path, stop: int) -> None:
    job, whole = of_24_steps
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(InterruptedRunError, match=f"step {stop}"):
        job.run(tmp_path / "stopped", progress=Stopped(stop))
    assert signal.getsignal(signal.SIGTERM) == before
    state = json.loads((tmp_path / "stopped" / "checkpoint" / "state.json").read_text())
    assert state["step"] == stop
    job.run(tmp_path / "stopped", resume=True)
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
    TrainJob(text=Source(str(text)), model=str(tiny_folder), settings=settings, callbacks=(Saved(),)).run(
        tmp_path / "r"
    )
    assert saved == [1, 2, 3]


def test_resume_refuses_another_run(tiny_folder: Path, text: Path, tmp_path: Path) -> None:
    from opencse.errors import UserError

    job = TrainJob(text=Source(str(text)), model=str(tiny_folder), settings=(*SETTINGS, "training.max_steps=10"))
    with pytest.raises(InterruptedRunError):
        job.run(tmp_path / "run", progress=Stopped(9))
    other = TrainJob(text=Source(str(text)), model=str(tiny_folder), settings=(*SETTINGS, "training.max_steps=30"))
    with pytest.raises(UserError, match=r"another recipe\.training\.max_steps \(10 then, 30 now\)"):
        other.run(tmp_path / "run", resume=True)
    with pytest.raises(UserError, match="continue it with --resume"):
        job.run(tmp_path / "run")
    result = job.run(tmp_path / "run", resume=True)
    again = job.run(tmp_path / "run", resume=True)
    assert again == result
