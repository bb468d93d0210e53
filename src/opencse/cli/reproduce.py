"""``opencse reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opencse.cli import options as own


def reproduce(
    recipe: Annotated[
        str, typer.Argument(help="A recipe with presets, of a backbone or an ablation: simcse:bert-base.")
    ],
    text: Annotated[str, typer.Argument(help="What the paper trained on: a text file or Hub data set id.")],
    out: Annotated[Path, own.out("of the runs; what is in it is not made again")],
    data: own.Data,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Another start than the paper's, for instance a local copy.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="42-46, or 1,2,3; the recipe's own, else the paper's one.")] = None,
    suites: own.Suites = "sts",
    fast: own.Fast = False,
    dev: Annotated[str, typer.Option(help="Graded pairs to select on (the papers': STS-B dev).")] = "sample",
    columns: own.Columns = None,
    set_: own.Set = None,
    workers: own.Workers = 1,
    device: own.Device = None,
    trust_remote_code: own.Trust = False,
) -> None:
    """Run a paper's row as the recipe has it, and print the published scores beside those got."""
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
