"""Whatever is killed, the next call continues from what was recorded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from opencse.crash_safe import (
    GrowingFile,
    ResumableFile,
    append_lines,
    changed_key,
    folder_versions,
    partial_path,
    read_lines,
    record_path,
    remove_leftovers,
    replace_folder,
    settle_folder,
)
from opencse.errors import UserError


def test_a_growing_file_keeps_what_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with closing(GrowingFile(path)) as file:
        file.append(b"12345")
        recorded = file.sha256
        file.append(b"lost")
    with closing(GrowingFile(path)) as file:
        assert not file.keep(10)
        assert not file.keep(4, recorded)
        assert file.keep(5, recorded)
        file.append(b"67")
        checksum = file.sha256
        file.overwrite_start(b"0")
    assert path.read_bytes() == b"0234567"
    with closing(GrowingFile(path)) as file:
        assert not file.keep(7, checksum)
        file.restart()
    assert path.read_bytes() == b""


def test_one_process_writes_a_growing_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with closing(GrowingFile(path)) as first, closing(GrowingFile(path)) as second:
        assert first.lock()
        assert not second.lock()
    with closing(GrowingFile(path)) as file:
        path.rename(tmp_path / "finished")
        assert not file.lock()


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


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    with ResumableFile.open(tmp_path / "out", {"rows": 1}, header=b"", row_size=1, say=print):  # noqa: SIM117
        with pytest.raises(UserError, match="another process is writing it"):
            write(tmp_path / "out", 1)


def test_the_key_that_changed() -> None:
    assert changed_key({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2}) is None
    assert changed_key({"a": 1}, {"a": 1, "b": 2}) == "b"


def test_a_journal_without_its_unfinished_line(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    assert read_lines(path) == []
    append_lines(path, ["one", "two"])
    with path.open("a") as stream:
        stream.write("thr")
    assert read_lines(path) == ["one", "two"]
    append_lines(path, ["three"])
    assert read_lines(path) == ["one", "two", "three"]


def test_only_ones_leftovers_are_removed(tmp_path: Path) -> None:
    for name in (".writing-12-a.txt", ".writing-12-b.txt", ".writing-x-a.txt", "a.txt"):
        (tmp_path / name).touch()
    remove_leftovers(tmp_path, lambda name: name == "a.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".writing-12-b.txt", ".writing-x-a.txt", "a.txt"]


def make(folder: Path, content: str) -> None:
    folder.mkdir()
    (folder / "whole").write_text(content)


def is_whole(folder: Path) -> bool:
    return (folder / "whole").exists()


def test_a_folder_is_replaced(tmp_path: Path) -> None:
    new, folder, _ = folder_versions(tmp_path / "folder")
    for content in ("1", "2"):
        make(new, content)
        replace_folder(folder)
        assert (folder / "whole").read_text() == content
        assert list(tmp_path.iterdir()) == [folder]


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
    for name, content in versions.items():
        path = {"new": new, "now": folder, "old": old}[name]
        make(path, content or "")
        if content is None:
            (path / "whole").unlink()
    settle_folder(folder, is_whole)
    assert (folder / "whole").read_text() == expected
    assert list(tmp_path.iterdir()) == [folder]


KILLED = """
import os, signal, sys
from pathlib import Path
from opencse.crash_safe import ResumableFile
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
