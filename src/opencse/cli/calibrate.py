"""``opencse calibrate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opencse.cli.models import Trust


def calibrate(
    model: Annotated[Path, typer.Argument(help="Folder of an encoder; calibration.json is written into it.")],
    text: Annotated[str, typer.Argument(help="Your own sentences: a text file or Hub data set id.")],
    pairs: Annotated[
        Path | None, typer.Option(help="Labelled pairs (0 or 1, sentence, sentence), for a threshold.")
    ] = None,
    cut: Annotated[float | None, typer.Option(help="Graded pairs: the score from which on a pair is alike.")] = None,
    precision: Annotated[
        float | None, typer.Option(min=0, max=1, help="Also the threshold that reaches this precision.")
    ] = None,
    columns: Annotated[str | None, typer.Option(help="Columns of TEXT to read; see opencse train.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps; by default a GPU if there is one.")] = None,
    trust_remote_code: Trust = False,
) -> None:
    """Find out what a cosine of this model means on your text, and from which one on pairs are alike.

    It is kept with the model, and `opencse similarity` shows it.
    """
    from opencse.analysis.calibration import calibrate as measure
    from opencse.cli.jobs import open_source
    from opencse.cli.models import load_encoder
    from opencse.errors import UserError
    from opencse.evaluation import read_scored_pairs

    if not model.is_dir():
        raise UserError(f"{model}: no such folder; a calibration is kept in the model's own (opencse train makes one)")
    texts = [one for row in open_source(text, columns, "train", None).read().rows for one in row]
    labelled = None if pairs is None else read_scored_pairs(pairs)
    encoder = load_encoder(model, device=device, trust_remote_code=trust_remote_code)
    found = measure(encoder, texts, labelled=labelled, cut=cut, precision=precision, corpus=text)
    found.save(model)
    shown = found.random_pairs.shown()
    typer.echo("random pairs   " + "  ".join(f"{percent:g} %: {cosine:.2f}" for percent, cosine in shown.items()))
    for threshold in (found.best_f1, found.at_precision):
        if threshold is None:
            continue
        interval = ""
        if threshold.interval is not None:
            interval = f" (95% interval {threshold.interval[0]:.3f} to {threshold.interval[1]:.3f})"
        rule = "best F1" if threshold.rule == "best_f1" else f"precision {threshold.wanted:g}"
        typer.echo(
            f"alike from     {threshold.cosine:.3f}{interval} by {rule}: precision {threshold.precision:.2f}, "
            f"recall {threshold.recall:.2f} on {threshold.pairs:,} pairs"
        )
