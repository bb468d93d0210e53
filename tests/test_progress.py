"""Reports of long work: bars and lines."""

from __future__ import annotations

import pytest

from opencse.progress import Counted, Silent, Stages, Terminal


class Noted(Silent):
    """Notes every call."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def start(self, title: str, total: int, done: int = 0) -> None:
        self.calls.append(("start", title, total, done))

    def advance(self, done: int, note: str = "") -> None:
        self.calls.append(("advance", done))

    def finish(self) -> None:
        self.calls.append(("finish",))


def test_a_count_is_a_bar_from_its_first_report_on() -> None:
    progress = Noted()
    count = Counted(progress, "encoding")
    assert progress.calls == []
    count(1, 2)
    count(2, 2)
    assert progress.calls == [("start", "encoding", 2, 1), ("advance", 1), ("advance", 2), ("finish",)]


def test_each_stage_is_a_bar() -> None:
    progress = Noted()
    stages = Stages(progress)
    stages("reading", 1, 1)
    stages("fitting", 1, 2)
    assert [call[1] for call in progress.calls if call[0] == "start"] == ["reading", "fitting"]


def test_without_a_terminal_notes_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    terminal.start("training", 10)
    terminal.advance(5, "dev 71.2")
    terminal.finish()
    terminal.say("kept step 5")
    assert capsys.readouterr().err.splitlines() == ["training 5/10  dev 71.2", "kept step 5"]
