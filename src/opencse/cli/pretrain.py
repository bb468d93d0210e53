"""``opencse pretrain``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opencse.cli import options as own


def pretrain(
    text: Annotated[
        str, typer.Argument(help="Raw text, in the forms that `opencse train` reads; the more the better.")
    ],
    out: Annotated[Path, own.out("for the backbone")],
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="Backbone to continue from (domain adaptation); by default a new BERT."),
    ] = None,
    vocabulary: Annotated[int, typer.Option(help="Size of the new vocabulary, at most.")] = 16_384,
    layers: Annotated[int, typer.Option(help="Layers of the new backbone.")] = 4,
    hidden: Annotated[int, typer.Option(help="Dimensions of its token embeddings and hidden states.")] = 256,
    heads: Annotated[int, typer.Option(help="Its attention heads.")] = 4,
    inner: Annotated[int, typer.Option(help="Width of its feed-forward layers.")] = 1_024,
    positions: Annotated[int, typer.Option(help="Longest text in tokens.")] = 128,
    dropout: Annotated[float, typer.Option(help="Dropout rate.")] = 0.1,
    minutes: Annotated[
        float | None,
        typer.Option(
            help="Minutes of training steps, by a pace measured at the start; reading, a new vocabulary and the report "
            "come on top, and a machine that gets busier takes longer."
        ),
    ] = None,
    tokens: Annotated[int | None, typer.Option(help="Tokens to train on; by default the recipe's budget.")] = None,
    recipe: Annotated[str, typer.Option("--recipe", "-r", help="Recipe by name or TOML file.")] = "pretrain",
    columns: own.Columns = None,
    fields: own.Fields = None,
    keep_code: own.KeepCode = False,
    skip_lines: own.SkipLines = None,
    split: own.Split = "train",
    dev: Annotated[
        str, typer.Option(help="Graded pairs that the best step is selected by: a file, 'sample' (built in) or 'none'.")
    ] = "none",
    set_: own.Set = None,
    seed: own.Seed = None,
    report: own.Report = True,
    track: own.Track = None,
    device: own.Device = None,
    trust_remote_code: own.Trust = False,
    resume: own.Resume = False,
    overwrite: own.Overwrite = False,
    dry_run: own.DryRun = False,
) -> None:
    """Pretrain a small BERT on raw text by masked language modelling, or adapt one to your domain.

    The masked-LM head is kept with the weights, so that pretraining and the mlm term can go on from them.
    """
    from opencse.cli.loading import terminal

    progress = terminal()
    from opencse.api.training import pretrain
    from opencse.cli.console import show_run
    from opencse.making.backbone import Shape
    from opencse.settings import validate

    size = {
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "inner": inner,
        "positions": positions,
        "dropout": dropout,
    }
    result = pretrain(
        text,
        out,
        model=model,
        vocabulary=vocabulary,
        shape=None if (shape := validate(Shape, size, "shape")) == Shape() else shape,
        recipe=recipe,
        columns=own.listed(columns),
        split=split,
        skip_lines=own.lines_of(skip_lines),
        fields=own.listed(fields),
        keep_code=keep_code,
        settings=own.settings(set_, seed=seed, minutes=minutes, tokens=tokens),
        dev=dev,
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
