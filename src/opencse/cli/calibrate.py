"""``opencse calibrate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opencse.cli import options as own


def calibrate(
    model: Annotated[Path, typer.Argument(help="Folder of an encoder; calibration.json is written into it.")],
    text: Annotated[str, typer.Argument(help="Your own sentences: a text file or a Hub data set.")],
    pairs: Annotated[
        Path | None, typer.Option(help="Labelled pairs (0 or 1, sentence, sentence), to find a threshold.")
    ] = None,
    cut: Annotated[
        float | None, typer.Option(help="For graded --pairs: pairs with at least this score count as similar.")
    ] = None,
    precision: Annotated[
        float | None, typer.Option(min=0, max=1, help="Also find the threshold that reaches this precision (0 to 1).")
    ] = None,
    columns: own.OwnColumns = None,
    device: own.Device = None,
    trust_remote_code: own.Trust = False,
) -> None:
    """Find out what a cosine of this model means on your text, and above which cosine pairs are similar.

    It is kept with the model, and `opencse similarity` shows it.
    """
    import opencse
    from opencse.cli.console import echo
    from opencse.progress import Terminal

    found = opencse.calibrate(
        model,
        text,
        pairs=pairs,
        cut=cut,
        precision=precision,
        columns=own.listed(columns),
        device=device,
        trust_remote_code=trust_remote_code,
        progress=Terminal(),
    )
    shown = found.random_pairs.shown()
    echo("random pairs   " + "  ".join(f"{percent:g} %: {cosine:.2f}" for percent, cosine in shown.items()))
    for threshold in (found.best_f1, found.at_precision):
        if threshold is None:
            continue
        interval = ""
        if threshold.interval is not None:
            interval = f" (95% interval {threshold.interval[0]:.3f} to {threshold.interval[1]:.3f})"
        rule = "best F1" if threshold.rule == "best_f1" else f"precision {threshold.wanted:g}"
        echo(
            f"similar from   {threshold.cosine:.3f}{interval} by {rule}: precision {threshold.precision:.2f}, "
            f"recall {threshold.recall:.2f} on {threshold.pairs:,} pairs"
        )
