"""Reports of long work: bars and lines."""

from __future__ import annotations

import pytest

from opencse.progress import Counted, Silent, Stages, Terminal, pace, wrapped


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


LINE = "limit      training.max_steps = 400 is not reached: set training.epochs = 400 for 400"


def test_a_line_continues_right_of_its_label() -> None:
    expected = (
        "limit      training.max_steps = 400 is\n           not reached: set\n           training.epochs = 400 for 400"
    )
    assert wrapped(LINE, 40) == expected
    assert wrapped(LINE, len(LINE)) == LINE
    assert (
        wrapped(" " * 12 + "3 x aa bb cc dd ee ff gg hh", 34)
        == " " * 12 + "3 x aa bb cc dd ee ff\n" + " " * 12 + "gg hh"
    )
    assert wrapped("text       漢字漢字漢字 漢字漢字漢字", 32) == "text       漢字漢字漢字\n           漢字漢字漢字"


@pytest.mark.parametrize(
    "line",
    [
        "a line without a label that is longer than the forty columns of the terminal",
        "next       opencse adapt 'a long name of a file.txt' --out adapted --model opencse-mini",
        "text       /a/path/that/is/longer/than/the/forty/columns/of/the/terminal.txt",
        "a label of many words that is long  and text",
    ],
)
def test_what_could_not_be_copied_afterwards_is_not_wrapped(line: str) -> None:
    assert wrapped(line, 40) == line


def test_a_command_at_the_end_begins_a_line() -> None:
    command = "opencse adapt 'a b.txt' --set data.near_duplicates=0.8"
    assert wrapped(f"advice     leave them out: {command}", 40) == f"advice     leave them out:\n           {command}"


def test_only_a_terminal_gets_wrapped_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Terminal().say(LINE)
    assert capsys.readouterr().err == f"{LINE}\n"
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")  # rich takes stderr for a terminal
    Terminal().say(LINE)
    assert capsys.readouterr().err == f"{wrapped(LINE, 40)}\n"
