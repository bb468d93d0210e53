"""``opencse compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opencse.cli import options as own


def compare(
    ctx: typer.Context,
    text: Annotated[
        str | None,
        typer.Argument(help="Text that every run is trained on: a file or a Hub data set; or a study file (*.toml)."),
    ] = None,
    out: Annotated[Path | None, own.out("of the comparison; runs that are there are not made again")] = None,
    recipes: Annotated[
        str | None,
        typer.Option(
            "--recipes", "-r", help="Recipes, comma-separated; presets follow after colons: simcse,simcse:dropout-0.2."
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="Evaluation data: a folder with sts/, transfer/, ... (or one of these), or 'hub' to download them."
        ),
    ] = None,
    study: Annotated[
        Path | None,
        typer.Option(help="TOML file with these options by name (--set is called settings); options typed here win."),
    ] = None,
    starts: Annotated[
        str,
        typer.Option("--starts", "-m", help="Models to start from, comma-separated: folders, Hub ids, opencse-mini."),
    ] = "opencse-mini",
    seeds: Annotated[str, typer.Option(help="Seeds, comma-separated or a range: 42-46.")] = "42-46",
    suites: own.Suites = "sts",
    fast: own.Fast = False,
    baseline: Annotated[
        str | None, typer.Option(help="Recipe that the others are compared with; by default the first.")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="Score that is compared, for instance sts.average (the default where STS is evaluated)."),
    ] = None,
    dev: Annotated[str, typer.Option(help="Graded pairs to select on: a file, 'sample' or 'none'.")] = "sample",
    kept: Annotated[
        bool, typer.Option("--kept/--last", help="Score the encoder that --dev selects, or that of the last step.")
    ] = False,
    columns: own.Columns = None,
    set_: own.Set = None,
    resamples: Annotated[
        int, typer.Option(min=0, help="Bootstrap samples for the intervals; 0: no intervals.")
    ] = 1_000,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Runs at a time; by default 1, with Ray one for each GPU or core."),
    ] = None,
    engine: own.Engine = own.EngineName.LOCAL,
    precision: Annotated[
        str, typer.Option(help="Arithmetic of evaluation: float32, or bf16 (faster where the processor has it).")
    ] = "float32",
    device: own.Device = None,
    trust_remote_code: own.Trust = False,
) -> None:
    """Compare recipes over seeds and starting models, with intervals and significance.

    Scored is the encoder of each run's last step, because the question is what a recipe does; --kept scores what
    `opencse train` would keep, which may be the start. The start is scored too: with the pooling that training
    begins with, and with its own where that differs.

    Each run is saved when it ends; after an interruption the same command continues. The result is comparison.md,
    comparison.svg and comparison.json in OUT. A study file holds all options: opencse compare study.toml.
    """
    from opencse.cli.loading import terminal

    progress = terminal()
    import shlex
    import sys

    import opencse
    from opencse.cli.console import echo, show
    from opencse.studies.study_file import read_study, study_of
    from opencse.studies.tables import comparison_table

    if study is None and text is not None and text.endswith(".toml"):
        study, text = Path(text), None
    options = {
        "text": text,
        "out": None if out is None else str(out),
        "recipes": own.listed(recipes),
        "data": data,
        "starts": own.listed(starts),
        "seeds": seeds,
        "suites": own.listed(suites),
        "fast": fast,
        "baseline": baseline,
        "metric": metric,
        "dev": dev,
        "kept": kept,
        "columns": own.listed(columns),
        "set_": set_,
        "resamples": resamples,
        "workers": workers,
        "engine": engine.value,
        "precision": precision,
        "device": device,
        "trust_remote_code": trust_remote_code,
    }
    given = {name: value for name, value in options.items() if value is not None and _is_typed(ctx, name)}
    if "set_" in given:
        given["settings"] = given.pop("set_")
    asked = study_of(given) if study is None else read_study(study, given)
    comparison = opencse.compare(
        asked.text,
        asked.out,
        asked.recipes,
        asked.data,
        starts=asked.starts,
        seeds=asked.seeds,
        suites=asked.suites,
        fast=asked.fast,
        baseline=asked.baseline,
        metric=asked.metric,
        dev=asked.dev,
        kept=asked.kept,
        columns=asked.columns,
        settings=asked.settings,
        resamples=asked.resamples,
        workers=asked.workers,
        engine=asked.engine,
        precision=asked.precision,
        device=asked.device,
        trust_remote_code=asked.trust_remote_code,
        command=shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        progress=progress,
    )
    show(comparison_table(comparison))
    echo(str(Path(asked.out) / "comparison.md"))


def _is_typed(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
