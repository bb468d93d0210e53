"""The record of a run of a comparison."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.environment import Environment
from opencse.errors import UserError
from opencse.studies.record import RECORD, StudyRecord


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = StudyRecord(
        recipe="simcse",
        start="opencse-mini",
        seed=1,
        asked={},
        judged="kept",
        environment=Environment.here("cpu"),
        judge_seconds=1.0,
        results={"sts.average": 71.5},
        data={},
    )
    assert StudyRecord.read(tmp_path) is None
    record.write(tmp_path)
    assert StudyRecord.read(tmp_path) == record
    assert not record.keeps_start()
    (tmp_path / RECORD).write_text("{}")
    with pytest.raises(UserError, match=RECORD):
        StudyRecord.read(tmp_path)
