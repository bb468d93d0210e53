"""``opencse pretrain``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opencse.cli.jobs import out_folder
from opencse.cli.models import Trust


def pretrain(
    text: Annotated[str, typer.Argument(help="Raw text, as for train; the more the better.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", parser=out_folder, metavar="FOLDER", help="Folder for the backbone.")
    ],
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="Go on from this backbone (domain adaptation); by default a new BERT."),
    ] = None,
    vocabulary: Annotated[int, typer.Option(help="Pieces of the new vocabulary.")] = 16_384,
    layers: Annotated[int, typer.Option(help="Layers of the new backbone.")] = 4,
    hidden: Annotated[int, typer.Option(help="Width of its token vectors.")] = 256,
    heads: Annotated[int, typer.Option(help="Its attention heads.")] = 4,
    inner: Annotated[int, typer.Option(help="Width of its feed-forward layers.")] = 1_024,
    positions: Annotated[int, typer.Option(help="Its longest text in ids.")] = 128,
    dropout: Annotated[float, typer.Option(help="Rate of its dropouts.")] = 0.1,
    minutes: Annotated[
        float | None, typer.Option(help="Budget of time; the pace is measured and the schedule made to fit.")
    ] = None,
    tokens: Annotated[int | None, typer.Option(help="Budget of tokens.")] = None,
    recipe: Annotated[str, typer.Option("--recipe", "-r", help="Recipe by name or TOML file.")] = "pretrain",
    columns: Annotated[str | None, typer.Option(help="Columns to read, as for train.")] = None,
    skip_lines: Annotated[
        Path | None, typer.Option(help="File of line numbers of TEXT to leave out, one a line.")
    ] = None,
    split: Annotated[str, typer.Option(help="Split of a Hub data set.")] = "train",
    dev: Annotated[
        str, typer.Option(help="Graded pairs to follow and select on: a file, 'sample' or 'none'.")
    ] = "none",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", help="Any setting: key.path=value, for instance training.learning_rate=5e-4."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Short for --set training.seed=N.")] = None,
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html at the end.")] = True,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps; by default a GPU if there is one.")] = None,
    trust_remote_code: Trust = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint in --out.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a run or encoder of opencse in --out; other files stay.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would happen, and stop.")] = False,
) -> None:
    """Pretrain a small BERT on raw text by masked language modelling, or adapt one to your domain.

    The masked-LM head is kept with the weights, so that pretraining and the mlm term can go on from them.
    """
    from opencse.cli.console import ConsoleReporter
    from opencse.cli.jobs import open_source, run_job
    from opencse.making.backbone import Shape
    from opencse.run import pretraining_job
    from opencse.settings import validate

    size = {
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "inner": inner,
        "positions": positions,
        "dropout": dropout,
    }
    reporter = ConsoleReporter()
    source = open_source(text, columns, split, skip_lines)
    settings = [
        *(set_ or []),
        *([f"training.seed={seed}"] if seed is not None else []),
        *([f"training.minutes={minutes}"] if minutes is not None else []),
        *([f"training.tokens={tokens}"] if tokens is not None else []),
    ]
    shape = validate(Shape, size, "shape")
    job = pretraining_job(
        source, out, model, vocabulary, shape, recipe, settings, dev, device, trust_remote_code=trust_remote_code
    )
    run_job(job, out, resume=resume, overwrite=overwrite, dry_run=dry_run, reporter=reporter, report=report)
