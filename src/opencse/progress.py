"""Reports what long work does: decisions and results as lines, counts as bars."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from opencse.errors import printable

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

_QUIET = 120.0
"""Seconds between lines of long work where there is no bar."""
_NARROW = 20
"""Columns below which a line is not wrapped."""
_LABEL = re.compile(r"(?:\S+(?: \S+)*)? {2,}(?=\S)")
"""What a line of a plan or a result begins with (``text       a.txt: ...``)."""
_WIDEST_LABEL = 16
_PIECE = re.compile(r"(?:(?<=: )|^)opencse [a-z].*|\S+")
"""A word; or a command to the end of the line, which stays in one piece so that it can be copied."""
Say = Callable[[str], None]
"""Called with a line worth reading."""
Count = Callable[[int, int], None]
"""Called with (done, in all)."""


def pace(rate: float) -> str:
    """How fast work goes: ``rate`` steps per second, or of slow steps the time of one.

    Example:
        >>> pace(1234.5), pace(0.4), pace(1 / 420)
        ('1,234.5/s', '2.5 s each', '7 min each')
    """
    if rate >= 1:
        return f"{rate:,.1f}/s"
    seconds = 1 / rate
    return f"{seconds:.1f} s each" if seconds < 100 else f"{seconds / 60:,.0f} min each"


def wrapped(line: str, width: int) -> str:
    """A line with a label wrapped at spaces for a terminal of ``width`` columns, all of its text right of the label.

    Lines without a label, and words and commands that are too long, are left for the terminal to wrap.

    Example:
        >>> print(wrapped("selection  by 150 general English pairs, because the documents are few", 40))
        selection  by 150 general English pairs,
                   because the documents are few
        >>> print(wrapped("next       opencse adapt corpus.txt --out my-model", 40))
        next       opencse adapt corpus.txt --out my-model
    """
    from rich.cells import cell_len

    label = _LABEL.match(line)
    if label is None or cell_len(line) <= width or not 0 < label.end() <= min(_WIDEST_LABEL, width - _NARROW):
        return line
    lines: list[str] = []
    for piece in _PIECE.findall(line[label.end() :]):
        longer = f"{lines[-1]} {piece}" if lines else piece
        if lines and cell_len(longer) > width - label.end():
            lines.append(piece)
        else:
            lines[-1:] = [longer]
    return label[0] + f"\n{' ' * label.end()}".join(lines)


class Progress(Protocol):
    """Receives the reports of long work; an exception raised in it (Ctrl-C, for one) ends the work."""

    def say(self, line: str) -> None:
        """Reports a decision with its reason, or a result, in one line."""
        return

    def start(self, title: str, total: int, done: int = 0) -> None:
        """Starts a bar of ``total`` steps, of which ``done`` were made before."""
        return

    def advance(self, done: int, note: str = "") -> None:
        """Reports that ``done`` steps of the current work are made."""
        return

    def finish(self) -> None:
        """Ends the bar."""
        return


class Silent(Progress):
    """Reports nothing (the library's default)."""

    def __repr__(self) -> str:
        return "SILENT"  # in signatures


SILENT = Silent()


def uncounted(done: int, total: int) -> None:
    """A `Count` that is shown nowhere."""


class Counted:
    """A `Count` that is shown as a bar; each new count starts a new bar.

    Work that never counts (because its result came from a cache) shows no bar.
    """

    def __init__(self, progress: Progress, title: str) -> None:
        self._progress, self._title, self._is_started = progress, title, False

    def __call__(self, done: int, total: int) -> None:
        """Reports that ``done`` of ``total`` steps are made."""
        if not self._is_started:
            self._progress.start(self._title, total, done)  # the rate counts only later steps
            self._is_started = True
        self._progress.advance(done)
        if done == total:
            self._progress.finish()
            self._is_started = False


class Stages:
    """Counts of work in stages, reported as ``(stage, done, total)``; each stage has a bar."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._stage = progress, ""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Reports that ``done`` of ``total`` steps of ``stage`` are made."""
        if stage != self._stage:
            self._stage = stage
            self._progress.start(stage, total)
        self._progress.advance(done)
        if done == total:
            self._progress.finish()
            self._stage = ""


class Terminal:
    """Reports on stderr, so that stdout stays free for results: lines, and a bar with rate and remaining time.

    Without a terminal there is no bar; notes on evaluations are printed instead, and a line with rate and remaining
    time every few minutes.
    """

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console(stderr=True, highlight=False)
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._title = ""
        self._total = 0
        self._done_before, self._at, self._reported = 0, 0.0, 0.0

    def say(self, line: str) -> None:
        """Prints a line, above the bar if there is one; in a terminal see `wrapped`."""
        text = printable(line, keep="\t")
        output = wrapped(text, self.console.width) if self.console.is_terminal else text
        self.console.print(output, markup=False, soft_wrap=True)

    def start(self, title: str, total: int, done: int = 0) -> None:
        """Shows a bar."""
        self.finish()
        title = printable(title)
        self._title, self._total = title, total
        self._done_before, self._at = done, time.monotonic()
        self._reported = self._at
        if not self.console.is_terminal:
            return
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            ProgressColumn,
            Task,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Bar
        from rich.text import Text

        class Rate(ProgressColumn):
            def render(self, task: Task) -> Text:
                speed = task.finished_speed or task.speed
                return Text(pace(speed) if speed else "")

        self._bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            Rate(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            console=self.console,
            transient=False,
        )
        self._bar.start()
        self._task = self._bar.add_task(title, total=total, completed=done, note="")

    def advance(self, done: int, note: str = "") -> None:
        """Moves the bar; a note stays next to it until the next one."""
        if self._bar is not None and self._task is not None:
            if note:
                self._bar.update(self._task, completed=done, note=note)
            else:
                self._bar.update(self._task, completed=done)
        elif note.startswith("dev"):
            self.say(f"{self._title} {done:,}/{self._total:,}  {note}")
        elif self._total and time.monotonic() - self._reported >= _QUIET:
            self._reported = time.monotonic()
            seconds, steps = self._reported - self._at, done - self._done_before
            if steps > 0:
                minutes = max(self._total - done, 0) * seconds / steps / 60
                message = f"{pace(steps / seconds)}  {minutes:,.0f} min left"
            else:
                message = f"after {seconds / 60:,.0f} min"
            self.say(f"{self._title} {done:,}/{self._total:,}  {message}")

    def finish(self) -> None:
        """Leaves the bar as it is and ends it."""
        if self._bar is not None:
            self._bar.stop()
        self._bar = self._task = None
