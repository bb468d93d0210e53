"""The terminal as a reporter: lines, and a bar with rate and time left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.segment import Segment

from opencse.errors import printable

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderableType, RenderResult
    from rich.progress import Progress, TaskID


def echo(line: str) -> None:
    """Prints a line on stdout; what names and texts in it would do to the terminal is shown instead."""
    typer.echo(printable(line, keep="\t"))


def show(table: RenderableType, console: Console | None = None) -> None:
    """Prints a table on stdout, likewise."""
    (console or Console()).print(_Shown(table))


class _Shown:
    """Something of rich's without the control characters that its texts hold; its own colours come after."""

    def __init__(self, inner: RenderableType) -> None:
        self.inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.inner, options):
            yield segment if segment.control else Segment(printable(segment.text, keep="\n"), segment.style)


class ConsoleReporter:
    """Tells on stderr, so that stdout stays free for results.

    Without a terminal there is no bar; notes that are worth a line (evaluations) are printed instead.
    """

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._what = ""
        self._total = 0

    def say(self, line: str) -> None:
        """Prints a line, above the bar if there is one."""
        self.console.print(printable(line, keep="\t"), markup=False, soft_wrap=True)

    def start(self, what: str, total: int, done: int = 0) -> None:
        """Shows a bar."""
        self.finish()
        what = printable(what)
        self._what, self._total = what, total
        if not self.console.is_terminal:
            return
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            ProgressColumn,
            Task,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.text import Text

        class Rate(ProgressColumn):
            def render(self, task: Task) -> Text:
                speed = task.finished_speed or task.speed
                return Text("" if speed is None else f"{speed:,.1f}/s")

        self._bar = Progress(
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

    def finish(self) -> None:
        """Leaves the bar as it is and ends it."""
        if self._bar is not None:
            self._bar.stop()
        self._bar = self._task = None
