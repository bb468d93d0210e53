"""Prints the results of commands on stdout, with control characters made visible, and progress on stderr."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from shutil import get_terminal_size
from types import ModuleType
from typing import TYPE_CHECKING

import typer

from opencse.errors import printable
from opencse.processes import started
from opencse.progress import Terminal, wrapped
from opencse.version import __version__

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

    from opencse.runs.finish import TrainResult


def echo(line: str) -> None:
    """Prints a line on stdout, control characters as escapes; in a terminal see `opencse.progress.wrapped`."""
    text = printable(line, keep="\t")
    typer.echo(wrapped(text, get_terminal_size().columns) if sys.stdout.isatty() else text)


def show(table: RenderableType, console: Console | None = None) -> None:
    """Prints a table on stdout, with control characters shown as escapes."""
    from rich.console import Console

    (console or Console()).print(_Shown(table), crop=False)  # a long name above a table continues on the next line


class _Shown:
    """A renderable of rich without the control characters of its texts; colours are added afterwards."""

    def __init__(self, inner: RenderableType) -> None:
        self.inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.segment import Segment

        for segment in console.render(self.inner, options):
            yield segment if segment.control else Segment(printable(segment.text, keep="\n"), segment.style)


def show_run(result: TrainResult, dry_run: bool) -> None:
    """Prints the folder of a run's encoder, or the plan of a dry run; in several processes only the first prints."""
    if not started().first:
        return
    for line in result.plan if dry_run else [str(result.folder)]:
        echo(line)


class _Notice(MetaPathFinder):
    """Prints one line when PyTorch is about to be imported; many commands work without it."""

    def __init__(self, progress: Terminal) -> None:
        self._progress = progress

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Finds nothing; the finders after this one do."""
        del path, target
        if fullname == "torch":
            sys.meta_path.remove(self)
            self._progress.say(f"opencse    {__version__}; loading PyTorch and transformers")
        return None


def terminal() -> Terminal:
    """The terminal that a command reports to, with a line on it when PyTorch begins to be loaded."""
    progress = Terminal()
    if "torch" not in sys.modules and sys.stderr.isatty() and started().first:
        sys.meta_path.insert(0, _Notice(progress))
    return progress
