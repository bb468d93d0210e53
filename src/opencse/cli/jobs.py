"""What the commands that read text and train have in common."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from opencse.cli.console import ConsoleReporter
    from opencse.job import TrainJob
    from opencse.text.readers import Source

_MODEL_FILES = ("modules.json", "config.json", "run.json")


def open_source(text: str, columns: str | None, split: str, skip_lines: Path | None) -> Source:
    """The source that the options name."""
    from opencse.text.readers import Source, read_line_numbers

    return Source(
        text,
        columns=tuple(c.strip() for c in columns.split(",")) if columns else None,
        split=split,
        skip_lines=read_line_numbers(skip_lines) if skip_lines else frozenset(),
    )


def run_job(job: TrainJob, out: Path, *, resume: bool, dry_run: bool, reporter: ConsoleReporter, report: bool) -> None:
    """Runs a job, or with ``dry_run`` prints its plan; ends with the exit code of an interruption if it is stopped."""
    from opencse.cli import INTERRUPTED
    from opencse.training.trainer import InterruptedRunError

    if dry_run:
        for line in job.prepare(reporter).plan.lines():
            typer.echo(line)
        return
    try:
        result = job.run(out, resume=resume, reporter=reporter)
    except InterruptedRunError as stopped:
        sys.stderr.write(f"opencse: {stopped}\n")
        raise typer.Exit(INTERRUPTED) from None
    if report:
        from opencse.run_report import REPORT, write_run_report

        if not (result.folder / REPORT).is_file():
            reporter.say(f"report     {write_run_report(job, result, reporter)}")
    typer.echo(str(result.folder))


def require_free(out: Path) -> None:
    """Refuses a place that holds a model already, or is a file."""
    from opencse.errors import UserError

    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is a file; choose another --out")
    if any((out / name).exists() for name in _MODEL_FILES):
        raise UserError(f"{out}: holds a model already; choose another --out")


def require_writable(file: Path) -> None:
    """Before the long work, so that a result that could not be written is told of at once; nothing is left behind."""
    import tempfile

    from opencse.errors import UserError, reason, shortened

    try:
        if file.exists() and not file.is_file():
            raise UserError(f"{file}: cannot be written (is not a regular file); give the path of a file")
        folder = next(parent for parent in file.absolute().parents if parent.exists())
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise UserError(f"{shortened(str(file), 200)}: cannot be written ({reason(error)})") from None


def make_folder(out: Path) -> None:
    """Before the long work, so that a folder that cannot be made is told of at once."""
    from opencse.errors import UserError, reason

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{out}: the folder cannot be made ({reason(error)})") from None
