"""What may be written, what is refused, and what a process killed at any moment leaves."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import opencse
from helpers import kill_after
from opencse.errors import UserError
from opencse.outputs import (
    held_lock,
    made_folder,
    moving_in,
    names_in,
    paths_of,
    require_absent,
    require_apart,
    require_empty,
    require_json,
)
from opencse.text import sample
from opencse.text.readers import Source

CHANGES = ((os, "fsync"), (os, "write"), (Path, "replace"), (Path, "unlink"), (Path, "mkdir"))
"""The functions that change files."""
LAST = ("config.json", "modules.json")
FILES = {"a.txt": "one", "b/c.txt": "two", "config.json": "three", "modules.json": "four"}


def test_paths_are_those_that_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt", "glove.vec"):
        Path(name).touch()
    assert paths_of("a.txt", "absent.txt", None, "owner/model", ["a.txt"], 3) == [Path("a.txt")]
    assert paths_of(Source("b.txt"), "words:glove.vec") == [Path("b.txt"), Path("glove.vec")]
    assert sorted(paths_of("*.txt")) == [Path("a.txt"), Path("b.txt")]


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


@pytest.mark.parametrize("out", ["data/a.txt", "./data/../data/a.txt", "soft/a.txt", "soft.txt", "hard.txt"])
def test_an_input_is_no_output_by_whatever_name(tree: Path, out: str) -> None:
    with pytest.raises(UserError, match="is also an input"):
        require_apart(out, read=[Path("data/a.txt")])


@pytest.mark.parametrize(
    ("out", "read", "models", "message"),
    [
        ("data/new", ["data"], [], "is inside the input data"),
        ("soft/new", ["data"], [], "is inside the input data"),
        ("model", [], ["model"], "is also an input"),
        ("data", ["data/a.txt"], [], "the input data/a.txt is in it"),
        (".", [], ["model"], "the input model is in it"),
    ],
)
def test_folders_in_one_another(tree: Path, out: str, read: list[str], models: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        require_apart(out, read=map(Path, read), models=map(Path, models))


def test_places_that_have_nothing_to_do_with_the_inputs(tree: Path) -> None:
    require_apart("new", read=[Path("data")], models=[Path("model")])
    require_apart("model/new", models=[Path("model")])
    require_apart("data", read=[Path("data/a.txt")], replaces=False)


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


@pytest.mark.parametrize("content", ["", "text", "[]", "[1]", '{"other": 1}', "{", '["' + "x" * 9])
def test_json_of_something_else_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(content)
    with pytest.raises(UserError, match="no result of this command"):
        require_json(file, lambda old: isinstance(old, dict) and "own" in old)
    file.write_text('{"own": 1}')
    require_json(file, lambda old: isinstance(old, dict) and "own" in old)


def test_a_folder_that_stays_empty_is_removed(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), made_folder(tmp_path / "a" / "b"):
        raise RuntimeError
    assert not (tmp_path / "a").exists()
    with made_folder(tmp_path / "a" / "b"):
        (tmp_path / "a" / "x").touch()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["x"]


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match=r"file/new: the folder cannot be made .*; name another one"):  # noqa: SIM117
        with made_folder(tmp_path / "file" / "new"):
            raise AssertionError("the block is not entered")


def test_a_lock_keeps_others_out_and_leaves_nothing_in_an_empty_folder(tmp_path: Path) -> None:
    with held_lock(tmp_path / ".lock", "busy"):
        with pytest.raises(UserError, match="busy"), held_lock(tmp_path / ".lock", "busy"):
            pass
        assert (tmp_path / ".lock").exists()
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").touch()
    with held_lock(tmp_path / ".lock", "busy"):
        pass
    assert (tmp_path / ".lock").exists()


def write(folder: Path) -> None:
    with moving_in(folder, last=LAST) as work:
        for name, text in FILES.items():
            (work / name).parent.mkdir(exist_ok=True)
            (work / name).write_text(text)


def content(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


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


@pytest.mark.parametrize("out", ["new/../mine", "new/../new2/../mine", "mine/new/.."])
def test_a_path_that_leads_to_a_folder_once_its_parents_are_made_is_refused(out: str, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "README.md").write_text("mine")
    with pytest.raises(UserError, match="write the path without"):
        require_empty(tmp_path / out)
    with pytest.raises(UserError, match="is not empty"):
        require_empty(tmp_path / "mine" / ".." / "mine")
    require_empty(tmp_path / "mine" / ".." / "new")


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
    folder = tmp_path / "out"
    seen = set()
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
            assert names in (set(), {name.split("/")[0] for name in FILES}), "half a move is not taken for a file"
            seen.add(bool(names))
        write(folder)
        assert content(folder) == FILES | ({"mine.txt": "mine"} if older else {})
        if os.WIFEXITED(status):
            break
    assert os.WIFEXITED(status), "never done"
    assert step > 10
    assert older or seen == {True, False}


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
        "export onnx": lambda: opencse.export_onnx(tiny_folder, out, text=text),
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
