"""``opencse reproduce``: train a paper's system: published scores next to yours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Unpack

import typer

from opencse.api.options.studies import ReproduceOptions
from opencse.cli.options import DataOption, folder_option, with_options


def _seeds(typed: str) -> list[int]:
    """The seeds that ``--seeds`` names."""
    from opencse.api.study_file import seeds_of

    return seeds_of(typed)


@with_options(seeds=_seeds)
def reproduce(
    recipe: Annotated[
        str, typer.Argument(help="Recipe with the presets of a backbone or an ablation: simcse:bert-base.")
    ],
    text: Annotated[str, typer.Argument(help="Text that the paper trained on: a file or a Hub data set.")],
    out: Annotated[Path, folder_option("of the runs; finished runs in it are not made again")],
    data: DataOption,
    **options: Unpack[ReproduceOptions],
) -> None:
    """Train and evaluate a paper's system, and print its published scores next to the measured ones."""
    from opencse.api.studies import reproduce
    from opencse.cli.console import show
    from opencse.studies.tables import expected_table

    reproduction = reproduce(recipe, text, out, data, **options)
    show(expected_table(reproduction.row.expected, reproduction.found))
