"""The file of a result: any other file is refused, and a failed write leaves the old one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.evaluation import StsResult
from opencse.records import save_json


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read as a result"),
        ("{", "cannot be read as a result"),
        ("[]", "a result is a JSON object, this file holds a list"),
        ('{"schema_version": 2}', "schema_version"),
    ],
)
def test_files_that_are_no_result_are_told(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "r.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message) as caught:
        StsResult.read_json(path)
    assert str(path) in str(caught.value)


def test_unwritable_places_are_told_and_leave_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(UserError, match="cannot be written"):
        save_json(tmp_path / "file" / "r.json", {})
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match="cannot be written"):
        save_json(tmp_path / "folder", {})
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="is not a regular file"):
        save_json(tmp_path / "pipe", {})
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "folder", "pipe"]


def test_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    save_json(tmp_path / "link.json", {"a": 1})
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text(encoding="utf-8")) == {"a": 1}


def test_full_disk_is_told_and_the_old_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.json"
    save_json(path, {"old": 1})

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(UserError, match=r"r.json: cannot be written \(No space left on device\)"):
        save_json(path, {"new": 2})
    assert json.loads(path.read_text(encoding="utf-8")) == {"old": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.json"]
