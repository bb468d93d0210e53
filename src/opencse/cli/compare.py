"""``opencse compare``: compare recipes over seeds and starting models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Unpack

import typer

from opencse.api.options.studies import CompareOptions
from opencse.cli.options import folder_option, listed, with_options


@with_options(seeds=str, data_seeds=str, dropout_seeds=str, tune_seeds=str)  # they are read as the study file's are
def compare(
    ctx: typer.Context,
    text: Annotated[
        str | None,
        typer.Argument(help="Text that every run is trained on: a file or a Hub data set; or a study file (*.toml)."),
    ] = None,
    out: Annotated[Path | None, folder_option("of the comparison; finished runs in it are not made again")] = None,
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
    **options: Unpack[CompareOptions],
) -> None:
    """Compare recipes over seeds and starting models, with intervals and significance.

    The encoder of each run's last step is scored, because the question is what a recipe does; --kept scores the
    encoder that `opencse train` would keep, which may be the start. The start is scored too: with the pooling that
    training begins with, and with its own where that differs.

    Each run is saved when it ends; after an interruption the same command continues. The result is comparison.md,
    comparison.svg and comparison.json in OUT. A study file holds all options: opencse compare study.toml.
    """
    import shlex
    import sys

    from opencse.api.studies import compare
    from opencse.api.study_file import read_study, study_of
    from opencse.cli.console import echo, show
    from opencse.studies.tables import comparison_table

    if study is None and text is not None and text.endswith(".toml"):
        study, text = Path(text), None
    arguments = {"text": text, "out": None if out is None else str(out), "recipes": listed(recipes), "data": data}
    values = {**arguments, **options}
    typed = {name: value for name, value in values.items() if value is not None and _is_typed(ctx, name)}
    request = study_of(typed) if study is None else read_study(study, typed)
    study_options = request.options()
    study_options["progress"] = options["progress"]
    study_options["command"] = shlex.join(["opencse", *sys.argv[1:]])  # whatever started it
    comparison = compare(request.text, request.out, request.recipes, request.data, **study_options)
    if study_options["dry_run"]:
        return
    show(comparison_table(comparison))
    echo(str(Path(request.out) / "comparison.md"))


def _is_typed(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
