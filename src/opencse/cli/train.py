"""``opencse train``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opencse.cli import options as own


def train(
    text: own.Text,
    out: Annotated[Path, own.out("for the trained encoder")],
    recipe: Annotated[
        str,
        typer.Option(
            "--recipe", "-r", help="Recipe by name (opencse recipes) or TOML file; presets follow after colons."
        ),
    ] = "simcse",
    model: Annotated[
        str,
        typer.Option("--model", "-m", help="Model to start from: a folder, a Hub id, or a preset's name."),
    ] = "opencse-mini",
    preset: Annotated[
        str | None,
        typer.Option(help="More presets of the recipe, joined by colons; that of --model is applied anyway."),
    ] = None,
    columns: own.Columns = None,
    fields: own.Fields = None,
    keep_code: own.KeepCode = False,
    skip_lines: own.SkipLines = None,
    split: own.Split = "train",
    dev: Annotated[
        str,
        typer.Option(
            help="Data that the best step is selected by: 'text' (questions from a held-out share of TEXT), 'auto' "
            "('text', or 'sample' where TEXT is small), 'sample' (150 built-in graded pairs), a file of graded "
            "pairs, a folder of queries with relevant documents (BEIR's layout), or 'none' (keep the last step)."
        ),
    ] = "auto",
    metric: own.Metric = None,
    keep_identical_ids: own.KeepIdenticalIds = False,
    set_: own.Set = None,
    seed: own.Seed = None,
    device: own.Device = None,
    trust_remote_code: own.Trust = False,
    resume: own.Resume = False,
    overwrite: own.Overwrite = False,
    report: own.Report = True,
    track: own.Track = None,
    dry_run: own.DryRun = False,
) -> None:
    """Train a sentence encoder from text; no labels needed.

    The best step by --dev is kept, or the start where no step is better. A model that comes with a pooling keeps it;
    --set encoder.pooling=mean (cls, ...) changes it.
    """
    from opencse.cli.loading import terminal

    progress = terminal()
    from opencse.api.training import train
    from opencse.cli.console import show_run

    result = train(
        text,
        out,
        recipe=recipe,
        model=model,
        preset=preset,
        columns=own.listed(columns),
        split=split,
        skip_lines=own.lines_of(skip_lines),
        fields=own.listed(fields),
        keep_code=keep_code,
        settings=own.settings(set_, seed=seed),
        dev=dev,
        metric=metric,
        keep_identical_ids=keep_identical_ids,
        resume=resume,
        overwrite=overwrite,
        dry_run=dry_run,
        report=report,
        track=track,
        device=device,
        trust_remote_code=trust_remote_code,
        progress=progress,
    )
    show_run(result, dry_run)
