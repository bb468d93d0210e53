"""What a process that moves files into a folder leaves, whenever it is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import killed_moves
import opencse
from killed_moves import FILES, content, write
from opencse.errors import UserError
from opencse.moving_in import moving_in
from opencse.outputs import names_in, require_empty
from opencse.text import sample


def test_an_error_in_the_block_moves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        with moving_in(folder) as work:
            (work / "a.txt").write_text("one")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    (tmp_path / "there.txt").write_text("stays")
    with pytest.raises(RuntimeError):
        fail(tmp_path)
    assert content(tmp_path) == {"there.txt": "stays"}


def test_two_processes_do_not_write_at_once(tmp_path: Path) -> None:
    with moving_in(tmp_path) as work:
        (work / "a.txt").write_text("one")
        with pytest.raises(UserError, match="another process is writing there"), moving_in(tmp_path):
            pass
    assert content(tmp_path) == {"a.txt": "one"}


def test_only_what_was_made_here_is_removed(tmp_path: Path) -> None:
    mine = {".writing-notes/novel.txt": "mine", ".writing-2024/a/b.txt": "mine", ".writing-1-a.txt": "mine"}
    for name, text in mine.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert names_in(tmp_path) == {".writing-notes", ".writing-2024"}
    killed = tmp_path / ".writing-abcdefgh"
    killed.mkdir()
    write(tmp_path)
    assert content(tmp_path) == FILES | mine
    assert not killed.exists()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("older", [False, True])
def test_killed_at_any_moment_the_next_call_writes_the_same(tmp_path: Path, older: bool) -> None:
    command = [sys.executable, killed_moves.__file__, str(tmp_path / "out"), *(["older"] if older else [])]
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    steps = int(done.stdout)
    assert steps > 10
    assert content(tmp_path / "out") == FILES | ({"mine.txt": "mine"} if older else {})


def break_off(folder: Path) -> None:
    """Makes the folder of a finished command what a kill in its final move leaves."""
    names = sorted(path.name for path in folder.iterdir())
    work = folder / ".writing-killed"
    work.mkdir()
    (work / ".moved.json").write_text(json.dumps(names))
    for name in names[: len(names) // 2]:
        (folder / name).rename(work / name)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["whiten", "static", "export static", "export onnx"])
def test_the_same_command_goes_through_after_a_kill_in_the_final_move(
    command: str, tmp_path: Path, tiny_folder: Path
) -> None:
    text, out = tmp_path / "text.txt", tmp_path / "out"
    text.write_text("\n".join(sample.TRAIN.read_text(encoding="utf-8").splitlines()[:300]))
    calls: dict[str, Callable[[], object]] = {
        "whiten": lambda: opencse.whiten(tiny_folder, text, out, dimension=8),
        "static": lambda: opencse.static(text, out, model=tiny_folder),
        "export static": lambda: opencse.export_static(tiny_folder, out),
        "export onnx": lambda: opencse.export_onnx("opencse-mini", out, text=text),
    }
    calls[command]()
    whole = content_names(out)
    break_off(out)
    require_empty(out)
    calls[command]()
    assert content_names(out) == whole, "and nothing of the killed one is left"
    with pytest.raises(UserError, match=r"holds a model already|is not empty"):
        calls[command]()


def content_names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
