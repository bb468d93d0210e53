"""Where long work tells what it does: decisions and results as lines, counts as bars; to a terminal, or to nobody."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from opencse.errors import printable

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

_QUIET = 120.0
"""Seconds between lines of long work where there is no bar."""
Say = Callable[[str], None]
"""Called with a line worth reading."""
Count = Callable[[int, int], None]
"""Called with (done, in all)."""


class Progress(Protocol):
    """What long work tells while it goes on; what raises in it (Ctrl-C, for one) ends the work."""

    def say(self, line: str) -> None:
        """A line worth reading: a decision with its reason, a result."""

    def start(self, what: str, total: int, done: int = 0) -> None:
        """Long work begins: ``total`` steps, ``done`` of them made before."""

    def advance(self, done: int, note: str = "") -> None:
        """``done`` steps of the current work are made."""

    def finish(self) -> None:
        """The current work is over."""


class Silent:
    """Tells nobody (the library's default)."""

    def say(self, line: str) -> None:
        """Nothing."""

    def start(self, what: str, total: int, done: int = 0) -> None:
        """Nothing."""

    def advance(self, done: int, note: str = "") -> None:
        """Nothing."""

    def finish(self) -> None:
        """Nothing."""


class Counted:
    """A `Count` that is told as a bar; each new count is a bar of its own.

    Work that never counts (because its result came from a cache) shows no bar.
    """

    def __init__(self, progress: Progress, what: str) -> None:
        self._progress, self._what, self._begun = progress, what, False

    def __call__(self, done: int, total: int) -> None:
        """``done`` of ``total`` are made."""
        if not self._begun:
            self._progress.start(self._what, total, done)  # the rate is of what comes after
            self._begun = True
        self._progress.advance(done)
        if done == total:
            self._progress.finish()
            self._begun = False


class Stages:
    """Counts of work in stages as ``(stage, done, total)`` calls: a bar each, begun at its first report."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._stage = progress, ""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """``done`` of ``total`` of ``stage`` are made."""
        if stage != self._stage:
            self._stage = stage
            self._progress.start(stage, total)
        self._progress.advance(done)
        if done == total:
            self._progress.finish()
            self._stage = ""


class Terminal:
    """Tells on stderr, so that stdout stays free for results: lines, and a bar with rate and time left.

    Without a terminal there is no bar; notes that are worth a line (evaluations) are printed instead, and a line with
    rate and time left every few minutes.
    """

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console(stderr=True, highlight=False)
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._what = ""
        self._total = 0
        self._begun, self._at, self._told = 0, 0.0, 0.0

    def say(self, line: str) -> None:
        """Prints a line, above the bar if there is one."""
        self.console.print(printable(line, keep="\t"), markup=False, soft_wrap=True)

    def start(self, what: str, total: int, done: int = 0) -> None:
        """Shows a bar."""
        self.finish()
        what = printable(what)
        self._what, self._total = what, total
        self._begun, self._at = done, time.monotonic()
        self._told = self._at
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
                return Text("" if speed is None else f"{speed:,.1f}/s")

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
        self._task = self._bar.add_task(what, total=total, completed=done, note="")

    def advance(self, done: int, note: str = "") -> None:
        """Moves the bar; a note stays beside it until the next one."""
        if self._bar is not None and self._task is not None:
            if note:
                self._bar.update(self._task, completed=done, note=note)
            else:
                self._bar.update(self._task, completed=done)
        elif note.startswith("dev"):
            self.say(f"{self._what} {done:,}/{self._total:,}  {note}")
        elif self._total and time.monotonic() - self._told >= _QUIET:
            self._told = time.monotonic()
            rate = max(done - self._begun, 1) / (self._told - self._at)
            left = max(self._total - done, 0) / rate / 60
            self.say(f"{self._what} {done:,}/{self._total:,}  {rate:,.1f}/s  {left:,.0f} min left")

    def finish(self) -> None:
        """Leaves the bar as it is and ends it."""
        if self._bar is not None:
            self._bar.stop()
        self._bar = self._task = None
