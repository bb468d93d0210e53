"""``opencse reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opencse.cli import options as own


def reproduce(
    recipe: Annotated[
        str, typer.Argument(help="Recipe with the presets of a backbone or an ablation: simcse:bert-base.")
    ],
    text: Annotated[str, typer.Argument(help="Text that the paper trained on: a file or a Hub data set.")],
    out: Annotated[Path, own.out("of the runs; what is in it is not made again")],
    data: own.Data,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="Model to start from, for instance a local copy; by default the paper's."),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Seeds: 42-46, or 1,2,3; by default the recipe's, or the paper's single one.")
    ] = None,
    suites: own.Suites = "sts",
    fast: own.Fast = False,
    dev: Annotated[
        str,
        typer.Option(
            help="Graded pairs that the best step is selected by: a file, 'sample' or 'none' (papers take STS-B dev)."
        ),
    ] = "sample",
    columns: own.Columns = None,
    set_: own.Set = None,
    workers: own.Workers = 1,
    device: own.Device = None,
    trust_remote_code: own.Trust = False,
) -> None:
    """Train and evaluate a paper's system, and print its published scores beside those measured here."""
    from opencse.cli.loading import terminal

    progress = terminal()
    import opencse
    from opencse.cli.console import show
    from opencse.studies.study_file import seeds_of
    from opencse.studies.tables import expected_table

    made = opencse.reproduce(
        recipe,
        text,
        out,
        data,
        model=model,
        seeds=None if seeds is None else seeds_of(seeds),
        suites=own.listed(suites) or [],
        fast=fast,
        dev=dev,
        columns=own.listed(columns),
        settings=set_ or (),
        workers=workers,
        device=device,
        trust_remote_code=trust_remote_code,
        progress=progress,
    )
    show(expected_table(made.row.expected, made.found))
