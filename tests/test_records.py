"""Results that are written as JSON files and read again."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.records import JsonRecord, read_record, require_writable, save_json, save_text


class Score(JsonRecord):
    """A record with one number."""

    score: float


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "score.json"
    Score(score=71.25).write_json(file)
    assert Score.read_json(file) == Score(score=71.25)
    Score(score=72.5).write_json(file)
    assert read_record(Score, file).score == 72.5


def test_other_files_are_neither_read_nor_replaced(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    save_json(file, {"mine": 1})
    with pytest.raises(UserError, match="exists and is no result of this command"):
        Score(score=1.0).write_json(file)
    with pytest.raises(UserError, match="mine"):
        Score.read_json(file)
    save_text(file, "no JSON")
    with pytest.raises(UserError, match="cannot be read as a result"):
        Score.read_json(file)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a regular file"):
        save_text(tmp_path, "text")


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
