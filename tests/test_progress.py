"""Reports of long work: bars and lines."""

from __future__ import annotations

import pytest

from opencse.progress import Counted, Silent, Stages, Terminal, pace


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


@pytest.mark.parametrize(
    ("rate", "shown"),
    [(25.04, "25.0/s"), (1.0, "1.0/s"), (0.5, "2.0 s each"), (1 / 90, "90.0 s each"), (1 / 600, "10 min each")],
)
def test_slow_steps_are_told_by_the_time_of_one(rate: float, shown: str) -> None:
    assert pace(rate) == shown


def test_without_a_terminal_a_line_every_few_minutes_tells_pace_and_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr("opencse.progress.time.monotonic", lambda: clock[0])
    terminal = Terminal()
    terminal.start("runs", 10, done=2)
    for seconds, done in ((60, 2), (180, 2), (240, 3), (420, 3), (840, 5)):
        clock[0] = seconds
        terminal.advance(done)
    assert capsys.readouterr().err.splitlines() == [
        "runs 2/10  after 3 min",
        "runs 3/10  7 min each  49 min left",
        "runs 5/10  5 min each  23 min left",
    ]
