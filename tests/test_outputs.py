"""What may be written and what is refused; files and folders are written whole or not at all, whatever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import killed_moves
import opencse
from killed_moves import FILES, content
from killed_moves import write as write_files
from opencse.errors import UserError
from opencse.files import (
    ResumableFile,
    folder_versions,
    moving_in,
    partial_path,
    record_path,
    remove_unfinished,
    settle_folder,
    write_text,
    writing,
)
from opencse.outputs import (
    names_in,
    require_absent,
    require_apart,
    require_empty,
    require_writable,
)
from opencse.records import JsonRecord, save_json, save_text
from opencse.text import sample


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with ``data/a.txt``, ``model/``, and links to them."""
    (tmp_path / "data").mkdir()
    (tmp_path / "model").mkdir()
    (tmp_path / "data" / "a.txt").write_text("one")
    (tmp_path / "soft").symlink_to("data")
    (tmp_path / "soft.txt").symlink_to("data/a.txt")
    os.link(tmp_path / "data" / "a.txt", tmp_path / "hard.txt")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("out", ["./data/../data/a.txt", "soft/a.txt", "soft.txt", "hard.txt"])
def test_an_input_is_no_output_by_whatever_name(tree: Path, out: str) -> None:
    with pytest.raises(UserError, match="is also an input"):
        require_apart(out, read=[Path("data/a.txt")])


@pytest.mark.parametrize(
    ("out", "read", "models", "message"),
    [
        ("data/new", ["data"], [], "is inside the input data"),
        ("model", [], ["model"], "is also an input"),
        ("data", ["data/a.txt"], [], "the input data/a.txt is in it"),
        (".", [], ["model"], "the input model is in it"),
    ],
)
def test_folders_in_one_another(tree: Path, out: str, read: list[str], models: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        require_apart(out, read=map(Path, read), models=map(Path, models))


def test_a_file_is_replaced_with_overwrite_alone(tree: Path) -> None:
    require_absent("new.npy", overwrite=False)
    require_absent("hard.txt", overwrite=True)
    with pytest.raises(UserError, match=r"exists already; replace it with --overwrite"):
        require_absent("hard.txt", overwrite=False)
    with pytest.raises(UserError, match="is a folder"):
        require_absent("data", overwrite=True)
    Path("dangling").symlink_to("nowhere")
    with pytest.raises(UserError, match="exists already"):
        require_absent("dangling", overwrite=False)


@pytest.mark.parametrize("out", ["new/../mine", "mine/new/.."])
def test_a_path_that_leads_to_a_folder_once_its_parents_are_made_is_refused(out: str, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "README.md").write_text("mine")
    with pytest.raises(UserError, match="write the path without"):
        require_empty(tmp_path / out)
    with pytest.raises(UserError, match="is not empty"):
        require_empty(tmp_path / "mine" / ".." / "mine")
    require_empty(tmp_path / "mine" / ".." / "new")


def test_a_file_in_a_read_only_folder_is_refused_before_the_work(
    tmp_path: Path, read_only: Callable[[Path], None]
) -> None:
    require_writable(tmp_path / "new" / "results.json")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "link.json").symlink_to(tmp_path / "protected" / "results.json")
    (tmp_path / "protected").mkdir()
    read_only(tmp_path / "protected")
    for file in (tmp_path / "protected" / "results.json", tmp_path / "link.json"):
        with pytest.raises(UserError) as caught:
            require_writable(file, remedy="name another")
        assert str(caught.value) == f"{file}: cannot be written ([Errno 30] Read-only file system); name another"


def test_a_failure_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def interrupted() -> None:
        with writing(path) as unfinished:
            unfinished.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


class Score(JsonRecord):
    """A record with one number."""

    score: float


def test_other_files_are_not_read_as_records(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    save_json(file, {"mine": 1})
    with pytest.raises(UserError, match="mine"):
        Score.read_json(file)
    save_text(file, "no JSON")
    with pytest.raises(UserError, match="cannot be read as a result"):
        Score.read_json(file)


def write(target: Path, rows: int, stop_after: int = 99, **identity: object) -> tuple[int, list[str]]:
    """Writes rows of two bytes; returns how many an earlier call had done, and what was said."""
    lines: list[str] = []
    values = {"rows": rows, **identity}
    with ResumableFile.open(target, values, header=b"head", row_size=2, say=lines.append) as file:
        before = file.done
        for row in range(before, rows):
            if row == stop_after:
                raise KeyboardInterrupt
            file.add(b"%02d" % row, 1)
        file.finish()
    return before, lines


def test_a_resumable_file_continues(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        write(target, 5, stop_after=3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.partial", "out.partial.json"]
    with partial_path(target).open("ab") as stream:
        stream.write(b"unrecorded")
    assert write(target, 5) == (3, ["out.partial: continues after 3 of 5 texts"])
    assert target.read_bytes() == b"head0001020304"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_resumable_file_starts_again_when_it_must(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_bytes(b"old")
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            write(target, 5, stop_after=3, model="a")
    assert write(target, 5, model="b") == (0, ["out.partial: was begun with another model; starting again"])
    with pytest.raises(KeyboardInterrupt):
        write(target, 5, stop_after=3)
    record_path(target).unlink()
    reason = "its record out.partial.json is missing or damaged"
    assert write(target, 5) == (0, [f"out.partial: {reason}; starting again"])
    with pytest.raises(KeyboardInterrupt):
        write(target, 5, stop_after=0)
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "nothing is left of a call that wrote no row"


def make(folder: Path, content: str) -> None:
    folder.mkdir()
    (folder / "whole").write_text(content)


def is_whole(folder: Path) -> bool:
    return (folder / "whole").exists()


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ({"new": "2", "now": "1"}, "2"),
        ({"new": "2", "old": "1"}, "2"),
        ({"new": None, "now": "1"}, "1"),
        ({"new": None, "old": "1"}, "1"),
        ({"now": "2", "old": "1"}, "2"),
        ({"now": None, "old": "1"}, "1"),
    ],
)
def test_the_newest_whole_version_is_kept(tmp_path: Path, versions: dict[str, str | None], expected: str) -> None:
    new, folder, old = folder_versions(tmp_path / "folder")
    for name, number in versions.items():
        path = {"new": new, "now": folder, "old": old}[name]
        make(path, number or "")
        if number is None:
            (path / "whole").unlink()
    settle_folder(folder, is_whole)
    assert (folder / "whole").read_text() == expected
    assert list(tmp_path.iterdir()) == [folder]


KILLED = """
import os, signal, sys
from pathlib import Path
from opencse.files import ResumableFile
with ResumableFile.open(Path(sys.argv[1]), {"rows": 9}, header=b"head", row_size=2, say=print) as file:
    for row in range(9):
        if row == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        file.add(b"%02d" % row, 1)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_after_a_real_kill(tmp_path: Path) -> None:
    target = tmp_path / "out"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(target)], env=os.environ, check=False)
    assert killed.returncode == -signal.SIGKILL
    before, _ = write(target, 9)
    assert before == 4
    assert target.read_bytes() == b"head" + b"".join(b"%02d" % row for row in range(9))


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


def test_what_killed_processes_left_is_removed(tmp_path: Path) -> None:
    mine = {".writing-notes/novel.txt": "mine", ".writing-2024/a/b.txt": "mine"}
    for name, text in mine.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    killed = tmp_path / f".writing-1-{tmp_path.name}"
    killed.mkdir()
    (tmp_path / ".writing-1-a.txt").write_text("half")
    assert names_in(tmp_path) == {".writing-notes", ".writing-2024"}
    write_files(tmp_path)
    assert not killed.exists()
    remove_unfinished(tmp_path)
    assert content(tmp_path) == FILES | mine


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


@pytest.mark.slow
@pytest.mark.parametrize("command", ["whiten", "static"])
def test_the_same_command_goes_through_after_a_kill(command: str, tmp_path: Path, tiny_folder: Path) -> None:
    text, out = tmp_path / "text.txt", tmp_path / "out"
    text.write_text("\n".join(sample.TRAIN.read_text(encoding="utf-8").splitlines()[:300]))
    calls: dict[str, Callable[[], object]] = {
        "whiten": lambda: opencse.whiten(tiny_folder, text, out, dimension=8),
        "static": lambda: opencse.static(text, out, model=tiny_folder),
    }
    calls[command]()
    whole = content_names(tmp_path)
    out.rename(tmp_path / ".writing-1-out")  # as a kill before the final move leaves it
    calls[command]()
    assert content_names(tmp_path) == whole, "and nothing of the killed one is left"
    with pytest.raises(UserError, match=r"holds a model already|is not empty"):
        calls[command]()


def content_names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
