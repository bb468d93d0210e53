"""``opencse compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opencse.cli import options as own


def compare(
    text: Annotated[str, typer.Argument(help="What every run is trained on: a text file or Hub data set id.")],
    out: Annotated[Path, own.out("of the comparison; what it holds is kept")],
    recipes: Annotated[
        str, typer.Option("--recipes", "-r", help="Comma-separated; presets may follow: simcse,simcse:dropout-0.2.")
    ],
    data: own.Data,
    starts: Annotated[
        str, typer.Option("--starts", "-m", help="Where to start, comma-separated: folders, Hub ids, opencse-mini.")
    ] = "opencse-mini",
    seeds: Annotated[str, typer.Option(help="Comma-separated, or a range: 42-46.")] = "42-46",
    suites: own.Suites = "sts",
    fast: own.Fast = False,
    baseline: Annotated[str | None, typer.Option(help="The recipe that others stand beside; the first one.")] = None,
    metric: Annotated[str | None, typer.Option(help="What is compared; sts.average where it is there.")] = None,
    dev: Annotated[str, typer.Option(help="Graded pairs to select on: a file, 'sample' or 'none'.")] = "sample",
    kept: Annotated[
        bool, typer.Option("--kept/--last", help="Score the encoder a run keeps on the dev pairs, or its last step's.")
    ] = False,
    columns: own.Columns = None,
    set_: own.Set = None,
    resamples: Annotated[int, typer.Option(min=0, help="Bootstrap samples of the sentence pairs; 0: none.")] = 1_000,
    workers: own.Workers = 1,
    device: own.Device = None,
    trust_remote_code: own.Trust = False,
) -> None:
    """Compare recipes over seeds and starts, with intervals and significance.

    What is scored is the encoder of each run's last step, because the question is what a recipe does; --kept scores
    what `opencse train` would keep, which may be the start. The start stands beside them as it is read where training
    begins, and as it was given where that differs.

    Every run is kept as it finishes, and the same command goes on where it was broken off. OUT ends with
    comparison.md, comparison.svg and comparison.json.
    """
    import shlex
    import sys

    import opencse
    from opencse.cli.console import echo, show
    from opencse.cli.seeds import seeds_of
    from opencse.progress import Terminal
    from opencse.studies.tables import comparison_table

    comparison = opencse.compare(
        text,
        out,
        own.listed(recipes) or [],
        data,
        starts=own.listed(starts) or [],
        seeds=seeds_of(seeds),
        suites=own.listed(suites) or [],
        fast=fast,
        baseline=baseline,
        metric=metric,
        dev=dev,
        kept=kept,
        columns=own.listed(columns),
        settings=set_ or (),
        resamples=resamples,
        workers=workers,
        device=device,
        trust_remote_code=trust_remote_code,
        command=shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        progress=Terminal(),
    )
    show(comparison_table(comparison))
    echo(str(out / "comparison.md"))
