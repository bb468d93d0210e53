"""Prints the results of commands on stdout, with control characters made visible."""

from __future__ import annotations

import sys
from shutil import get_terminal_size
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.segment import Segment

from opencse.errors import printable
from opencse.progress import wrapped

if TYPE_CHECKING:
    from rich.console import ConsoleOptions, RenderableType, RenderResult

    from opencse.runs.finish import TrainResult


def echo(line: str) -> None:
    """Prints a line on stdout, control characters as escapes; in a terminal see `opencse.progress.wrapped`."""
    text = printable(line, keep="\t")
    typer.echo(wrapped(text, get_terminal_size().columns) if sys.stdout.isatty() else text)


def show(table: RenderableType, console: Console | None = None) -> None:
    """Prints a table on stdout, with control characters shown as escapes."""
    (console or Console()).print(_Shown(table), crop=False)  # a long name above a table continues on the next line


class _Shown:
    """A renderable of rich without the control characters of its texts; colours are added afterwards."""

    def __init__(self, inner: RenderableType) -> None:
        self.inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.inner, options):
            yield segment if segment.control else Segment(printable(segment.text, keep="\n"), segment.style)


def show_run(result: TrainResult, dry_run: bool) -> None:
    """Prints the folder of a run's encoder, or the plan of a dry run; in several processes only the first prints."""
    from opencse.processes import started

    if not started().first:
        return
    for line in result.plan.lines() if dry_run else [str(result.folder)]:
        echo(line)
