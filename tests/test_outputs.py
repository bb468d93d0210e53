"""What may be written and what is refused."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.outputs import (
    has_fields,
    held_lock,
    made_folder,
    paths_of,
    require_absent,
    require_apart,
    require_empty,
    require_json,
    require_writable,
)
from opencse.search.result import IndexInfo
from opencse.text.readers import Source


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


def test_a_result_that_lacks_later_fields_is_still_one() -> None:
    """Of `index info` before the index remembered how its files are read."""
    info = {one.name: None for one in fields(IndexInfo)}
    assert has_fields(info, IndexInfo)
    assert has_fields({name: value for name, value in info.items() if name not in ("fields", "ids")}, IndexInfo)
    assert not has_fields({name: value for name, value in info.items() if name != "fingerprint"}, IndexInfo)


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


@pytest.mark.parametrize("out", ["new/../mine", "new/../new2/../mine", "mine/new/.."])
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


def test_a_refused_file_is_named_and_not_the_one_it_was_tried_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(dir: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(dir / "tmp1234"))

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    with pytest.raises(UserError) as caught:
        require_writable(tmp_path / "a.json", remedy="name another")
    assert str(caught.value) == f"{tmp_path / 'a.json'}: cannot be written ([Errno 13] Permission denied); name another"


@pytest.mark.parametrize(
    "place", ["file/new", "file/new/deep", "x" * 300, "new/" + "x" * 300, "/proc/nothing/new", "\0"]
)
def test_a_place_that_cannot_be_written_is_refused_and_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    with pytest.raises(UserError, match=r"cannot be written \(.*\); choose another --out"):
        require_apart(place)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    require_apart("new/folder/model")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
