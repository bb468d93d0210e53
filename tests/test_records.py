"""Results that are written as JSON files and read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.records import JsonRecord, read_record, save_json, save_text


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
