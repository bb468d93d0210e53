"""What the commands that read text and train have in common."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opencse.cli.console import ConsoleReporter
    from opencse.runs.job import TrainJob
    from opencse.text.readers import Source


def out_folder(name: str) -> Path:
    """The folder that ``--out`` names; an empty name would be the working folder."""
    from opencse.errors import UserError

    if not name.strip():
        raise UserError("--out is empty (a shell variable that is not set?); name a folder, or . for the working one")
    return Path(name)


def open_source(text: str, columns: str | None, split: str, skip_lines: Path | None) -> Source:
    """The source that the options name."""
    from opencse.text.readers import Source, read_line_numbers

    return Source(
        text,
        columns=tuple(c.strip() for c in columns.split(",")) if columns else None,
        split=split,
        skip_lines=read_line_numbers(skip_lines) if skip_lines else frozenset(),
    )


def run_job(
    job: TrainJob,
    out: Path,
    *,
    resume: bool,
    overwrite: bool,
    dry_run: bool,
    reporter: ConsoleReporter,
    report: bool,
) -> None:
    """Runs a job, or with ``dry_run`` prints its plan."""
    from opencse.cli.console import echo

    if dry_run:
        for line in job.dry_run(out, resume=resume, overwrite=overwrite, reporter=reporter).lines():
            echo(line)
        return
    result = job.run(out, resume=resume, overwrite=overwrite, reporter=reporter)
    if report:
        from opencse.runs.folder import REPORT
        from opencse.runs.report import write_run_report

        if not (result.folder / REPORT).is_file():
            reporter.say(f"report     {write_run_report(job, result, reporter)}")
    echo(str(result.folder))


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
