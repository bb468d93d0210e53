from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from math import factorial
from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.workers import started


def nothing() -> None:
    """Called first in each process."""


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


def test_an_error_ends_the_others_at_once() -> None:
    begun = time.monotonic()
    with suppress(OSError), started(2, time.sleep, os.getpid) as workers:
        assert next(workers.done([0.0, 600.0], lambda: None)) == (0.0, None)
        raise OSError
    assert time.monotonic() - begun < 100


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
