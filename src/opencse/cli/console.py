"""What commands print on stdout, with nothing in it that a terminal would obey."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.segment import Segment

from opencse.errors import printable

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderableType, RenderResult

    from opencse.runs.finish import TrainResult


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


def show_run(result: TrainResult, dry_run: bool) -> None:
    """Prints where a run left its encoder, or the plan of one that was not made; of several processes one does."""
    from opencse.processes import started

    if not started().first:
        return
    for line in result.plan.lines() if dry_run else [str(result.folder)]:
        echo(line)
