"""A run of several processes that is killed, stopped and resumed equals an uninterrupted run."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file
from torch import distributed

from forked import Command, Forks
from helpers import json_in
from joined import environment, free_port
from opencse.runs.run import Run
from opencse.text.readers import Source

pytestmark = pytest.mark.slow

RUN = (
    "training.batch_size=8",
    "training.epochs=1000",
    "training.max_steps=40",
    "training.log_every=1",
    "training.checkpoint_every=10",
    "training.precision=float32",
    "training.chunk=3",
    "data.max_length=24",
    "encoder.layers=1",
)


def steps_logged(out: Path) -> int:
    log = out / "metrics.jsonl"
    return len(log.read_text().splitlines()) if log.is_file() else 0


def wait_for(out: Path, steps: int, process: Command) -> None:
    """Until so many steps are logged."""
    end = time.monotonic() + 240
    while steps_logged(out) < steps:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_run_of_several_is_killed_and_stopped_and_continues_as_one(
    tiny_folder: Path, tmp_path: Path, sentences: list[str], forked: Forks
) -> None:
    """Two processes, and two data sets: each step is of the same one as in a run of one process."""
    text, graded, out = tmp_path / "text.txt", tmp_path / "graded.tsv", tmp_path / "together"
    text.write_text("\n".join(sentences[:20]))
    graded.write_text("".join(f"{n % 4}\t{sentences[n]}\t{sentences[n + 30]}\n" for n in range(20)))
    typed = [part for setting in RUN for part in ("--set", setting)]
    asked = ["train", text, "--out", out, "--model", tiny_folder, "--device", "cpu", "--dev", "none", "--no-report"]
    command = [str(word) for word in (*asked, *typed, "--also", f"{graded}=cosent")]
    names = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    first, second = (forked.start(*command, more={**names, "RANK": n, "LOCAL_RANK": n}) for n in "01")
    wait_for(out, 12, first)
    second.kill()
    assert first.wait(timeout=90) != 0, "the end of one is the end of the other"
    assert "lost the others" in first.communicate()[1]
    at = steps_logged(out)
    assert 12 <= at < 40

    torchrun = ["--nproc-per-node", "2", "--master-port", str(free_port()), "--no-python"]
    own = [sys.executable, "-c", "from opencse.cli import main; main()", *command, "--resume"]
    run = forked.start(*torchrun, *own, program=Path(distributed.__file__).with_name("run.py"), more=environment())
    wait_for(out, at + 5, run)
    run.send_signal(signal.SIGTERM)
    _, told = run.communicate(timeout=90)
    state = json_in(out / "checkpoint" / "state.json")
    assert f"stopped after step {state['step']:,} of 40" in told
    assert state["step"] % 10 or state["step"] > at, "where it was stopped, not where it last saved"
    assert state["chunks"] == {"rows": 3, "keep": 1, "processes": 2}

    job = Run(
        text=Source(str(text)), recipe="simcse", model=str(tiny_folder), settings=RUN, dev=None, device="cpu",
        also=((Source(str(graded)), "cosent"),),
    )  # fmt: skip
    job.train(out, resume=True)
    job.train(tmp_path / "alone")
    one, other = (load_file(folder / "model.safetensors") for folder in (out, tmp_path / "alone"))
    before = load_file(tiny_folder / "model.safetensors")
    moved = max(float((other[name] - before[f"bert.{name}"]).abs().max()) for name in other)
    assert max(float((one[name] - other[name]).abs().max()) for name in one) < 1e-3 * moved
    assert steps_logged(out) == steps_logged(tmp_path / "alone") == 40
    logs = [(folder / "metrics.jsonl").read_text().splitlines() for folder in (out, tmp_path / "alone")]
    sets = [[json.loads(line)["data_set"] for line in log] for log in logs]
    assert sets[0] == sets[1]
    assert set(sets[0]) == {1, 2}
