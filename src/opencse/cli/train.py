"""``opencse train``: train a sentence encoder from text by a recipe; no labels needed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Unpack

from opencse.api.options.training import TrainOptions
from opencse.cli.options import SeedOption, TextArgument, folder_option, settings_with, with_options


@with_options()
def train(
    text: TextArgument,
    out: Annotated[Path, folder_option("for the trained encoder")],
    seed: SeedOption = None,
    **options: Unpack[TrainOptions],
) -> None:
    """Train a sentence encoder from text; no labels needed.

    The best step by --dev is kept, or the start where no step is better. A model that comes with a pooling keeps it;
    --set encoder.pooling=mean (cls, ...) changes it.
    """
    from opencse.api.training import train
    from opencse.cli.console import show_run

    options["settings"] = settings_with(options["settings"], seed=seed)
    show_run(train(text, out, **options), options["dry_run"])
