"""``opencse pretrain``: pretrain a small BERT on raw text, or adapt one to your domain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Unpack

import typer

from opencse.api.options.training import PretrainOptions
from opencse.cli.options import SeedOption, folder_option, settings_with, with_options


@with_options()
def pretrain(
    text: Annotated[
        str, typer.Argument(help="Raw text, in the forms that `opencse train` reads; the more the better.")
    ],
    out: Annotated[Path, folder_option("for the backbone")],
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
            "take additional time, and a machine that gets busier takes longer."
        ),
    ] = None,
    tokens: Annotated[int | None, typer.Option(help="Tokens to train on; by default the recipe's budget.")] = None,
    seed: SeedOption = None,
    **options: Unpack[PretrainOptions],
) -> None:
    """Pretrain a small BERT on raw text by masked language modelling, or adapt one to your domain.

    The masked-LM head is saved with the weights, so that pretraining and the mlm term can continue from them.
    """
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
    shape = validate(Shape, size, "shape")
    options["shape"] = None if shape == Shape() else shape
    options["settings"] = settings_with(options["settings"], seed=seed, minutes=minutes, tokens=tokens)
    show_run(pretrain(text, out, **options), options["dry_run"])
