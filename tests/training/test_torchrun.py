"""A run of several processes that is killed, stopped and resumed equals an uninterrupted run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file

from joined import environment, free_port
from opencse.runs.run import TrainJob
from opencse.text.readers import Source

pytestmark = pytest.mark.slow

RUN = (
    "training.batch_size=8",
    "training.epochs=1000",
    "training.max_steps=80",
    "training.log_every=1",
    "training.evaluate_every=60",
    "training.checkpoint_every=10",
    "training.precision=float32",
    "training.chunk=3",
    "data.max_length=24",
)


def launched(text: Path, out: Path, model: Path, *more: str) -> subprocess.Popen[str]:
    """``torchrun`` with two processes of ``opencse train``."""
    typed = [part for setting in RUN for part in ("--set", setting)]
    own = [sys.executable, "-c", "from opencse.cli import main; main()"]
    asked = ["train", str(text), "--out", str(out), "--model", str(model), "--device", "cpu", "--dev", "none"]
    port = ["--nproc-per-node", "2", "--master-port", str(free_port()), "--no-python"]
    command = [sys.executable, "-m", "torch.distributed.run", *port, *own, *asked, "--no-report", *typed, *more]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def steps_logged(out: Path) -> int:
    log = out / "metrics.jsonl"
    return len(log.read_text().splitlines()) if log.is_file() else 0


def wait_for(out: Path, steps: int, process: subprocess.Popen[str]) -> None:
    """Until so many steps are logged."""
    end = time.monotonic() + 240
    while steps_logged(out) < steps:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_run_of_several_is_killed_and_stopped_and_continues_as_one(
    tiny_folder: Path, tmp_path: Path, sentences: list[str]
) -> None:
    """Two processes, and two data sets: each step is of the same one as in a run of one process."""
    text, graded, out = tmp_path / "text.txt", tmp_path / "graded.tsv", tmp_path / "together"
    text.write_text("\n".join(sentences[:20]))
    graded.write_text("".join(f"{n % 4}\t{sentences[n]}\t{sentences[n + 30]}\n" for n in range(20)))
    also = ("--also", f"{graded}=cosent")
    run = launched(text, out, tiny_folder, *also)
    wait_for(out, 12, run)
    workers = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    assert len(workers) == 2
    os.kill(int(workers[1]), signal.SIGKILL)
    _, told = run.communicate(timeout=90)
    assert run.returncode != 0, "the end of one is the end of the job"
    assert "lost the others" in told or "Signal 9" in told
    at = steps_logged(out)
    assert 12 <= at < 80

    run = launched(text, out, tiny_folder, *also, "--resume")
    wait_for(out, at + 5, run)
    run.send_signal(signal.SIGTERM)
    _, told = run.communicate(timeout=90)
    state = json.loads((out / "checkpoint" / "state.json").read_text())
    assert f"stopped after step {state['step']:,} of 80" in told
    assert state["step"] % 10 or state["step"] > at, "where it was stopped, not where it last saved"
    assert state["chunks"] == {"rows": 3, "keep": 1, "processes": 2}

    job = TrainJob(
        text=Source(str(text)), recipe="simcse", model=str(tiny_folder), settings=RUN, dev=None, device="cpu",
        also=((Source(str(graded)), "cosent"),),
    )  # fmt: skip
    job.run(out, resume=True)
    job.run(tmp_path / "alone")
    one, other = (load_file(folder / "model.safetensors") for folder in (out, tmp_path / "alone"))
    before = load_file(tiny_folder / "model.safetensors")
    moved = max(float((other[name] - before[f"bert.{name}"]).abs().max()) for name in other)
    assert max(float((one[name] - other[name]).abs().max()) for name in one) < 1e-3 * moved
    assert steps_logged(out) == steps_logged(tmp_path / "alone") == 80
    logs = [(folder / "metrics.jsonl").read_text().splitlines() for folder in (out, tmp_path / "alone")]
    sets = [[json.loads(line)["data_set"] for line in log] for log in logs]
    assert sets[0] == sets[1]
    assert set(sets[0]) == {1, 2}
