"""The log of a run: cut back whole or not at all, and no line silently dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.training.metrics import MetricsLog

LINES = b'{"step": 1, "loss": 0.5}\n{"step": 2, "loss": NaN}\n{"step": 3, "loss": 1e-05}\n'


def test_a_cut_off_last_line_is_left_out(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for rest in (b"", b'{"step": 4, "lo', b"\0\0\0", b"\xff"):
        log.path.write_bytes(LINES + rest)
        assert [record["step"] for record in log.read()] == [1, 2, 3]
    log.path.write_bytes(LINES[:-1])
    assert [record["step"] for record in log.read()] == [1, 2, 3], "whole but for its end of line"
    log.rewind(2)
    assert log.path.read_bytes() == LINES[: LINES.index(b'{"step": 3')]
    log.write({"step": 3})
    assert [record["step"] for record in log.read()] == [1, 2, 3]


@pytest.mark.parametrize("line", [b"{]", b"\xff\xfe\0binary", b"[1]", b'{"loss": 1}', b"", b'{"step": "x"}'])
def test_any_other_bad_line_is_named(tmp_path: Path, line: bytes) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    content = LINES + line + b"\n" + LINES
    log.path.write_bytes(content)
    for use in (log.read, lambda: log.rewind(3)):
        with pytest.raises(UserError, match=r"metrics\.jsonl, line 4: is no record of a step .*; delete the line"):
            use()
    assert log.path.read_bytes() == content


def test_killed_while_it_is_rewound_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.path.write_bytes(LINES)
    places = 0
    for name in ("write_bytes", "replace"):

        def dies(*_: object) -> None:
            nonlocal places
            places += 1
            raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(Path, name, dies)
            with pytest.raises(Killed):
                log.rewind(1)
        assert log.path.read_bytes() == LINES
    assert places == 2
    log.rewind(1)
    assert log.path.read_bytes() == LINES.splitlines(keepends=True)[0]
