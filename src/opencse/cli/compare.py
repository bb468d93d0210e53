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
        typer.Argument(help="What every run is trained on: a text file or Hub data set id. Or a study file, *.toml."),
    ] = None,
    out: Annotated[Path | None, own.out("of the comparison; what it holds is kept")] = None,
    recipes: Annotated[
        str | None,
        typer.Option("--recipes", "-r", help="Comma-separated; presets may follow: simcse,simcse:dropout-0.2."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Folder with sts/, transfer/, ... (or one suite's own folder), or 'hub'.")
    ] = None,
    study: Annotated[
        Path | None,
        typer.Option(help="TOML file with these options by name (set: settings); those given beside it win."),
    ] = None,
    starts: Annotated[
        str, typer.Option("--starts", "-m", help="Where to start, comma-separated: folders, Hub ids, opencse-mini.")
    ] = "opencse-mini",
    seeds: Annotated[str, typer.Option(help="Comma-separated, or a range: 42-46.")] = "42-46",
    suites: own.Suites = "sts",
    fast: own.Fast = False,
    baseline: Annotated[str | None, typer.Option(help="The recipe that others are compared with; the first.")] = None,
    metric: Annotated[str | None, typer.Option(help="What is compared; sts.average where it is there.")] = None,
    dev: Annotated[str, typer.Option(help="Graded pairs to select on: a file, 'sample' or 'none'.")] = "sample",
    kept: Annotated[
        bool, typer.Option("--kept/--last", help="Score the encoder a run keeps on the dev pairs, or its last step's.")
    ] = False,
    columns: own.Columns = None,
    set_: own.Set = None,
    resamples: Annotated[int, typer.Option(min=0, help="Bootstrap samples of the sentence pairs; 0: none.")] = 1_000,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Runs at a time, each with its share of the cores; 1, with Ray one a GPU or core."),
    ] = None,
    engine: own.Engine = own.EngineName.LOCAL,
    precision: Annotated[
        str, typer.Option(help="Arithmetic of evaluation: float32, or bf16 where the processor has it.")
    ] = "float32",
    device: own.Device = None,
    trust_remote_code: own.Trust = False,
) -> None:
    """Compare recipes over seeds and starts, with intervals and significance.

    What is scored is the encoder of each run's last step, because the question is what a recipe does; --kept scores
    what `opencse train` would keep, which may be the start. The start is scored too, as it is read where training
    begins, and as it was given where that differs.

    Every run is kept as it finishes, and the same command goes on where it was broken off. OUT ends with
    comparison.md, comparison.svg and comparison.json.

    A study file keeps all of it in one place: opencse compare study.toml.
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
