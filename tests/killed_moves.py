"""Moves files into a folder again and again, each time in a process that is killed one moment later.

Run as python killed_moves.py FOLDER [older]; prints the number of the first process that was done before its end. It is
a program of its own since the processes are forked: a copy of one that has loaded torch takes a fifth of a second.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from kills import kill_after
from opencse.files import moving_in
from opencse.outputs import names_in

CHANGES = ((os, "fsync"), (os, "write"), (Path, "replace"), (Path, "unlink"), (Path, "mkdir"))
"""The functions that change files."""
LAST = ("config.json", "modules.json")
FILES = {"a.txt": "one", "b/c.txt": "two", "config.json": "three", "modules.json": "four"}


def write(folder: Path) -> None:
    with moving_in(folder, last=LAST) as work:
        for name, text in FILES.items():
            (work / name).parent.mkdir(exist_ok=True)
            (work / name).write_text(text)


def content(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def moves_until_one_is_done(folder: Path, *, older: bool) -> int:
    """Checks that the next call writes the same after each kill, and returns the step of the kill that came too late.

    Args:
        folder: made anew for each.
        older: whether it holds the same files already, and another.
    """
    for step in range(1, 100):
        shutil.rmtree(folder, ignore_errors=True)
        if older:
            write(folder)
            (folder / "mine.txt").write_text("mine")
        child = os.fork()
        if child == 0:  # never returns from here
            try:
                kill_after(step, CHANGES)
                write(folder)
            finally:
                os._exit(0)
        status = os.waitpid(child, 0)[1]
        if not older and folder.is_dir():
            names = names_in(folder)
            assert names == {name.split("/")[0] for name in FILES}, "a new folder appears when it is whole"
        write(folder)
        assert content(folder) == FILES | ({"mine.txt": "mine"} if older else {})
        if os.WIFEXITED(status):
            return step
    raise AssertionError("never done")


if __name__ == "__main__":
    os.fsync = lambda fd: None  # nobody pulls the plug; see conftest.py
    sys.stdout.write(str(moves_until_one_is_done(Path(sys.argv[1]), older="older" in sys.argv[2:])))
