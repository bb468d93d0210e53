"""``opencse calibrate``: measure what a cosine of a model means on your text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Unpack

import typer

from opencse.api.options.vectors import CalibrateOptions
from opencse.cli.options import with_options
from opencse.numerals import number_of


@with_options()
def calibrate(
    model: Annotated[Path, typer.Argument(help="Folder of an encoder; calibration.json is written into it.")],
    text: Annotated[str, typer.Argument(help="Your own sentences: a text file or a Hub data set.")],
    **options: Unpack[CalibrateOptions],
) -> None:
    """Find out what a cosine of this model means on your text, and above which cosine pairs are similar.

    The result is saved with the model, and `opencse similarity` shows it.
    """
    from opencse.api.vectors import calibrate
    from opencse.cli.console import echo

    calibration = calibrate(model, text, **options)
    percentiles = calibration.random_pairs.quantiles_by_percent()
    echo("random pairs   " + "  ".join(f"{percent:g} %: {cosine:.2f}" for percent, cosine in percentiles.items()))
    for threshold in (calibration.best_f1, calibration.at_precision):
        if threshold is None:
            continue
        interval = ""
        if threshold.interval is not None:
            interval = f" (95% interval {threshold.interval[0]:.3f} to {threshold.interval[1]:.3f})"
        rule = "best F1" if threshold.rule == "best_f1" else f"precision {threshold.wanted:g}"
        echo(
            f"similar from   {threshold.cosine:.3f}{interval} by {rule}: precision {threshold.precision:.2f}, "
            f"recall {threshold.recall:.2f} on {number_of(threshold.pairs, 'pair')}"
        )
