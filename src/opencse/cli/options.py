"""The options that several commands have, each declared once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Collection

_FORMATS = (
    "Text file (txt, csv, tsv, jsonl, parquet; .gz .xz .bz2 .zst too), a quoted pattern of files, a folder of .txt and "
    ".md files, or Hub data set id."
)


class EngineName(StrEnum):
    """Where work is shared out."""

    LOCAL = "local"
    RAY = "ray"


def _folder(name: str) -> Path:
    """The folder that ``--out`` names; an empty name would be the working folder."""
    from opencse.errors import UserError

    if not name.strip():
        raise UserError("--out is empty (a shell variable that is not set?); name a folder, or . for the working one")
    return Path(name)


def out(what: str) -> typer.models.OptionInfo:
    """``--out`` for a folder that holds ``what``."""
    option: typer.models.OptionInfo = typer.Option(
        "--out", "-o", parser=_folder, metavar="FOLDER", help=f"Folder {what}."
    )
    return option


Text = Annotated[str, typer.Argument(help=_FORMATS)]
Encoder = Annotated[str, typer.Argument(help="Encoder: a folder, a Hub id, or opencse-mini.")]
Columns = Annotated[
    str | None,
    typer.Option(help="Columns to read, by name or (without header) by position: anchor[,positive[,negative]]."),
]
OwnColumns = Annotated[
    str | None,
    typer.Option(help="Columns to read, by name or (without header) by position; each text is read by itself."),
]
SkipLines = Annotated[Path | None, typer.Option(help="File of line numbers of TEXT to leave out, one a line.")]
Split = Annotated[str, typer.Option(help="Split of a Hub data set.")]
Pooling = Annotated[str | None, typer.Option(help="Replaces the model's own.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", help="Any setting: key.path=value, for instance training.epochs=2."),
]
Seed = Annotated[int | None, typer.Option(help="Short for --set training.seed=N.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, mps; by default a GPU if there is one.")]
Trust = Annotated[
    bool,
    typer.Option("--trust-remote-code", help="Run the Python code that the model's folder brings; read it first."),
]
Metric = Annotated[
    str | None, typer.Option(help="How answers to questions are scored: ndcg@10 (default), mrr@10, recall@100, ...")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint in --out.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace a run or encoder of opencse in --out; other files stay.")
]
Report = Annotated[bool, typer.Option("--report/--no-report", help="Write report.html at the end.")]
Track = Annotated[
    str | None, typer.Option("--track", help="tensorboard or wandb: every line of metrics.jsonl goes there too.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would happen, and stop.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write every number here.")]
Data = Annotated[str, typer.Option(help="Folder with sts/, transfer/, ... (or one suite's own folder), or 'hub'.")]
Suites = Annotated[str, typer.Option(help="What is scored, comma-separated: sts, transfer, ...")]
Fast = Annotated[bool, typer.Option("--fast", help="Transfer tasks with SentEval's fast classifier.")]
Engine = Annotated[EngineName, typer.Option(help="Processes of this machine, or of a Ray cluster (RAY_ADDRESS).")]
Workers = Annotated[int, typer.Option(min=1, help="Runs at a time, each with its share of the cores.")]


def listed(text: str | None) -> list[str] | None:
    """The parts of a comma-separated list; None stays None."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def lines_of(file: Path | None) -> Collection[int]:
    """The line numbers in a file."""
    if file is None:
        return ()
    from opencse.text.readers import read_line_numbers

    return read_line_numbers(file)


def settings(given: list[str] | None, **short: float | None) -> list[str]:
    """``--set``, and what is short for a setting of ``training``."""
    return [*(given or []), *(f"training.{key}={value}" for key, value in short.items() if value is not None)]


def require_writable(file: Path | None) -> None:
    """Before the long work, so that a result that could not be written is told of at once; nothing is left behind."""
    import tempfile

    from opencse.errors import UserError, reason, shortened

    if file is None:
        return
    try:
        if file.exists() and not file.is_file():
            raise UserError(f"{file}: cannot be written (is not a regular file); give the path of a file")
        folder = next(parent for parent in file.absolute().parents if parent.exists())
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise UserError(f"{shortened(str(file), 200)}: cannot be written ({reason(error)})") from None


def texts(given: list[str] | None, file: Path | None) -> list[str]:
    """Texts that were typed, then those of a file."""
    from opencse.text.readers import Source

    read = [] if file is None else [row[0] for row in Source(str(file)).read().rows]
    return [*(given or []), *read]
