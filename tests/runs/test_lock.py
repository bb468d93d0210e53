"""One process at a time in a folder; the second is told who the first is; a dead one's lock is taken over."""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from opencse import io
from opencse.errors import UserError
from opencse.runs import lock
from opencse.runs.lock import Owner, held, require_free, was_locked

CHILD = """
import sys, time
from pathlib import Path
from opencse.runs.lock import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def holder(file: Path) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(file)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


@pytest.mark.slow
def test_the_second_process_is_told_of_the_first_and_a_dead_ones_lock_is_taken_over(tmp_path: Path) -> None:
    file = tmp_path / "run.lock"
    with holder(file) as child:
        who = rf"in use by another process \(host {re.escape(socket.gethostname())}, process {child.pid}, since 20\d\d-"
        content = file.read_bytes()
        with pytest.raises(UserError, match=who), held(file):
            pass
        with pytest.raises(UserError, match=who):
            require_free(file)
        assert file.read_bytes() == content
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert was_locked(file)
        require_free(file)
        with held(file) as before:
            assert before is not None
            assert before.process == child.pid
            assert Owner.model_validate_json(file.read_bytes()).process == os.getpid()
            with pytest.raises(UserError, match=f"process {os.getpid()}"), held(file):
                pass
    assert not file.exists()
    with held(file) as before:
        assert before is None


def test_a_file_removed_by_its_holder_is_not_locked_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between opening and locking the holder may have ended: its file has no name any more, and locks nobody out."""
    file = tmp_path / "run.lock"
    taken = io.lock
    removed: list[int] = []

    def late(descriptor: int) -> None:
        if len(removed) < 2:
            removed.append(descriptor)
            file.unlink()
            if len(removed) == 2:
                file.touch()  # the next one's
        taken(descriptor)

    monkeypatch.setattr(lock, "lock", late)
    with held(file):
        assert len(removed) == 2
        assert Owner.model_validate_json(file.read_bytes()).process == os.getpid()


@pytest.mark.slow
def test_without_locks_of_the_system_the_file_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(descriptor: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock, "lock", none)
    file = tmp_path / "run.lock"
    for owner in (Owner(), Owner(host="elsewhere", process=1)):
        file.write_text(owner.model_dump_json())
        with pytest.raises(UserError, match=rf"process {owner.process}, .* remove .*run\.lock"), held(file):
            pass
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    file.write_text(Owner(process=dead.pid).model_dump_json())
    with held(file) as before:
        assert before is not None
        assert before.process == dead.pid
        with pytest.raises(UserError, match="in use"):
            require_free(file)


def test_a_folder_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="cannot be written to"), held(tmp_path / "no" / "run.lock"):
        pass
    (tmp_path / "run.lock").write_text("something else")
    assert not was_locked(tmp_path / "run.lock")
