"""The options that several commands have, each declared once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

_FORMATS = (
    "File of text (one text per line, a table, JSON, Parquet, XML, Markdown, HTML, PDF, e-mail, subtitles; also .gz "
    ".xz .bz2 .zst), a quoted pattern ('*.txt'), a folder of files, or a Hub data set."
)


class EngineName(StrEnum):
    """Where work is shared out."""

    LOCAL = "local"
    RAY = "ray"


def named(name: str | Path, what: str) -> str:
    """``name``; an empty one would be the working folder."""
    from opencse.errors import UserError

    if not str(name).strip():
        raise UserError(f"{what} is empty (a shell variable that is not set?); name a folder, or . for the working one")
    return str(name)


def place(name: str | Path) -> Path:
    """What ``--out`` names, or its default."""
    return Path(named(name, "--out"))


def out(what: str) -> typer.models.OptionInfo:
    """``--out`` for a folder that holds ``what``."""
    option: typer.models.OptionInfo = typer.Option(
        "--out", "-o", parser=place, metavar="FOLDER", help=f"Folder {what}."
    )
    return option


Text = Annotated[str, typer.Argument(help=_FORMATS)]
Encoder = Annotated[str, typer.Argument(help="Encoder: a folder, a Hub id, or opencse-mini.")]
Columns = Annotated[
    str | None,
    typer.Option(help="Columns to read, by name or (without header) by position: anchor[,positive[,negative]]."),
]
Fields = Annotated[
    str | None,
    typer.Option(
        help="What the file calls its documents' title and text, or the text alone: headline,body; nested keys with "
        "dots: meta.title,body.text. [default: title,text]"
    ),
]
KeepCode = Annotated[
    bool, typer.Option("--keep-code", help="Keep code blocks of HTML and Markdown; by default they are left out.")
]
OwnColumns = Annotated[
    str | None,
    typer.Option(help="Columns to read, by name or (without header) by position; each text is read by itself."),
]
SkipLines = Annotated[Path | None, typer.Option(help="File of line numbers of TEXT to leave out, one a line, from 1.")]
Split = Annotated[str, typer.Option(help="Split of a Hub data set.")]
Pooling = Annotated[
    str | None, typer.Option(help="How token vectors become one: mean, cls, max, ...; by default the model's own.")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        help="Change a setting: training.epochs=2; may be repeated. All of them: opencse recipes show RECIPE.",
    ),
]
Seed = Annotated[int | None, typer.Option(help="Seed of the run; by default the recipe's.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda or mps; by default a GPU if there is one.")]
Trust = Annotated[
    bool,
    typer.Option("--trust-remote-code", help="Run the Python code that the model's folder brings; read it first."),
]
Metric = Annotated[
    str | None,
    typer.Option(help="Measure of retrieval that --dev selects by: mrr@10, recall@100, ...; by default ndcg@10."),
]
KeepIdenticalIds = Annotated[
    bool,
    typer.Option(
        "--keep-identical-ids",
        help="Retrieval: rank a document that has the query's own id also where it is not judged relevant.",
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue from the checkpoint in --out.")]
Overwrite = Annotated[
    bool,
    typer.Option(
        "--overwrite", help="Replace the run or encoder in --out, from the first step on; other files there stay."
    ),
]
Report = Annotated[bool, typer.Option("--report/--no-report", help="Write report.html at the end.")]
Track = Annotated[
    str | None, typer.Option("--track", help="Log to tensorboard or wandb too; metrics.jsonl is always written.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check everything, print the plan, and stop before training.")]
Json = Annotated[Path | None, typer.Option("--json", help="Also write the results to this file, as JSON.")]
Data = Annotated[
    str,
    typer.Option(
        help="Evaluation data: a folder with sts/, transfer/, ... (or one of these), or 'hub' to download them."
    ),
]
Suites = Annotated[
    str, typer.Option(help="Suites to evaluate, comma-separated: sts, transfer, probing, retrieval, ...")
]
Fast = Annotated[bool, typer.Option("--fast", help="Transfer: SentEval's faster settings, for a first look.")]
Engine = Annotated[EngineName, typer.Option(help="Where the work runs: this machine, or a Ray cluster (RAY_ADDRESS).")]
Workers = Annotated[int, typer.Option(min=1, help="Runs at a time; the cores are divided among them.")]


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


def require_json(
    file: Path | None, is_own: Callable[[Any], bool], *, read: Sequence[object] = (), models: Sequence[object] = ()
) -> None:
    """Refuses ``--json`` before the long work: an input, a file of something else, a place that cannot be written.

    Args:
        file: of ``--json``.
        is_own: whether a value read from a file is a result of the same command, which may be replaced.
        read: what the command reads, as it was typed.
        models: names or folders of the models.

    Raises:
        UserError: saying what to do.
    """
    import tempfile

    from opencse import outputs
    from opencse.errors import UserError, reason, shortened

    if file is None:
        return
    try:
        file.exists()  # raises for a name that the system does not take
        outputs.require_apart(
            file, read=outputs.paths_of(*read), models=outputs.paths_of(*models), option="--json", replaces=False
        )
        outputs.require_json(file, is_own)
        folder = next(parent for parent in file.absolute().parents if parent.exists())
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise UserError(f"{shortened(str(file), 200)}: cannot be written ({reason(error)})") from None


def texts(given: list[str] | None, file: Path | None) -> list[str]:
    """Texts that were typed, then those of a file."""
    from opencse.text.readers import Source

    read = [] if file is None else [row[0] for row in Source(str(file)).read().rows]
    return [*(given or []), *read]
