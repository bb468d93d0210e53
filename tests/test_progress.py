"""Reports of long work, processes that share it, and streams of random numbers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from math import factorial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opencse.errors import UserError
from opencse.progress import Terminal, wrapped
from opencse.streams import Stream, seed_of
from opencse.workers import started


def test_without_a_terminal_a_line_every_few_minutes_tells_pace_and_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr("opencse.progress.time.monotonic", lambda: clock[0])
    terminal = Terminal()
    terminal.start("runs", 10, done=2)
    for seconds, done in ((60, 2), (180, 2), (240, 3), (420, 3), (840, 5)):
        clock[0] = seconds
        terminal.advance(done)
    assert capsys.readouterr().err.splitlines() == [
        "runs 2/10  after 3 min",
        "runs 3/10  7 min each  49 min left",
        "runs 5/10  5 min each  23 min left",
    ]


LINE = "limit      training.max_steps = 400 is not reached: set training.epochs = 400 for 400"


def test_a_line_continues_right_of_its_label() -> None:
    expected = (
        "limit      training.max_steps = 400 is\n           not reached: set\n           training.epochs = 400 for 400"
    )
    assert wrapped(LINE, 40) == expected
    assert wrapped(LINE, len(LINE)) == LINE
    assert (
        wrapped(" " * 12 + "3 x aa bb cc dd ee ff gg hh", 34)
        == " " * 12 + "3 x aa bb cc dd ee ff\n" + " " * 12 + "gg hh"
    )
    assert wrapped("text       漢字漢字漢字 漢字漢字漢字", 32) == "text       漢字漢字漢字\n           漢字漢字漢字"


def test_tasks_are_shared_out_and_few_wait() -> None:
    taken: list[int] = []

    def tasks() -> object:
        for number in range(9):
            taken.append(number)
            yield number

    ticks: list[int] = []
    ahead = []
    found = {}
    with started(2, factorial, os.getpid) as workers:
        for task, result in workers.done(tasks(), lambda: ticks.append(1)):  # type: ignore[arg-type]
            found[task] = result
            ahead.append(len(taken) - len(found))
    assert found == {number: factorial(number) for number in range(9)}
    assert max(ahead) <= 3
    assert ticks


def test_a_killed_process_is_told_of() -> None:
    with started(1, os._exit, os.getpid) as workers, pytest.raises(UserError, match="ended before its work"):
        list(workers.done([3], lambda: None))


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_they_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import os, time\nfrom opencse.workers import started\n"
        "if __name__ == '__main__':\n"
        "    with started(1, time.sleep, os.getpid) as workers:\n"
        "        list(workers.done([0.0, 600.0], lambda: print(*workers._pool._processes, flush=True)))\n"
    )
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    os.kill(child, 0)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    for _ in range(600):
        try:
            if Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except OSError:
            return
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    raise AssertionError("the process outlives its parent")


def test_no_stream_is_anothers() -> None:
    members = Stream.__members__  # a second name for one number would be here too
    assert len({int(stream) for stream in members.values()}) == len(members)


@given(st.integers(0, 2**63 - 1), st.text(max_size=20), st.integers(0, 2**63 - 1), st.text(max_size=20))
def test_seeds_are_of_number_and_name_together(number: int, name: str, other: int, another: str) -> None:
    seed = seed_of(number, name)
    assert 0 <= seed < 2**63
    assert seed == seed_of(number, name)
    if (number, name) != (other, another):
        assert seed != seed_of(other, another)
