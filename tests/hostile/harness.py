"""One hostile command and what must come of it: exit code 2 (1 if nobody means it), one line, no file changed."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from helpers import Run


@dataclass(frozen=True)
class Case:
    """A command that is to be refused.

    Attributes:
        line: the command as typed in the world's folder; names of files are those of `worlds`.
        says: parts of the message.
        late: whether the fault is found at work, so that lines of progress may stand before the message.
    """

    line: str
    says: tuple[str, ...] = ()
    late: bool = False


def cases(lines: Iterable[Case]) -> pytest.MarkDecorator:
    """The cases as parameters, each under its command."""
    return pytest.mark.parametrize("case", [pytest.param(one, id=_shown(one.line)) for one in lines])


def _shown(line: str) -> str:
    return line if len(line) < 120 else f"{line[:100]}...{hashlib.sha256(line.encode()).hexdigest()[:6]}"


def refuse(case: Case, run: Run, world: Path, own: str = "") -> None:
    """Runs the command in ``world`` and checks all that is promised of a refusal; ``own`` is a file that may change."""
    before = tree(world)
    code, stdout, stderr = run(*shlex.split(case.line))
    changed = {name for name, _ in tree(world).items() ^ before.items()} - {own}
    assert not changed, f"files changed: {changed}; {stderr}"
    assert code == 2 or (code == 1 and not case.says), f"exit code {code}\n{stdout}\n{stderr}"
    assert "Traceback" not in stderr
    assert not stdout, "something on stdout"
    lines = [line for line in stderr.splitlines() if not line.startswith(("loading ", "read as "))]
    assert lines, "not a word"
    assert lines[-1].startswith("opencse: "), stderr
    assert len(lines[-1]) < 2_000, "a line that nobody reads"
    assert case.late or len(lines) == 1, stderr
    for part in case.says:
        assert part in lines[-1], stderr


def tree(folder: Path) -> dict[str, tuple[int, ...]]:
    """Every file and folder: kind, size, place on the disk and times of change, which no write leaves as they were.

    With `os.scandir`: going through the world by pathlib took half of the time of these tests.
    """
    found: dict[str, tuple[int, ...]] = {}
    folders = [""]
    while folders:
        inside = folders.pop()
        with os.scandir(folder / inside) as entries:
            for entry in entries:
                status, name = entry.stat(follow_symlinks=False), inside + entry.name
                times = () if entry.is_dir() else (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
                found[name] = (status.st_mode, status.st_ino, *times)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(f"{name}/")
    return found
