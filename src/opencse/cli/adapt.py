"""``opencse adapt``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opencse.cli import options as own


def adapt(
    corpus: Annotated[
        str,
        typer.Argument(
            help="Documents: a file (one sentence per line with blank lines between documents; JSON or a table with "
            "title and text; Markdown, HTML, PDF, e-mail, ...), a folder of such files, or one in BEIR's layout."
        ),
    ],
    out: Annotated[Path, own.out("for the adapted encoder")],
    fields: own.Fields = None,
    keep_code: own.KeepCode = False,
    pairs: Annotated[
        str | None,
        typer.Option(
            help="Questions with texts that answer them, if you have any: a table of two columns, or a folder in "
            "BEIR's layout (its train judgements). They are trained on too, and some are held out to select by."
        ),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="The two columns of --pairs: question,answer. [default: anchor,positive]")
    ] = None,
    model: Annotated[
        str,
        typer.Option("--model", "-m", help="Encoder to adapt: a folder, a Hub id, or a preset's name."),
    ] = "opencse-mini",
    recipe: Annotated[
        str, typer.Option("--recipe", "-r", help="Recipe by name (opencse recipes) or TOML file.")
    ] = "adapt",
    dev: Annotated[
        str,
        typer.Option(
            help="Data that the best step is selected by: 'auto' (questions about held-out documents), a folder of "
            "your queries with their relevant documents (BEIR's layout), a file of graded pairs, 'sample' (150 "
            "built-in graded pairs), or 'none' (keep the last step)."
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
    """Adapt an encoder to your documents; no labels needed, questions with answers welcome.

    It learns from titles with their texts, neighbouring sentences and texts that share rare words. Some documents are
    held out; questions about them select the encoder that is kept: a step, its average with the start, or the start.
    """
    from opencse.cli.loading import terminal

    progress = terminal()
    from opencse.api.training import adapt
    from opencse.cli.console import show_run

    result = adapt(
        corpus,
        out,
        fields=own.listed(fields),
        keep_code=keep_code,
        pairs=pairs,
        columns=own.listed(columns),
        model=model,
        recipe=recipe,
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
