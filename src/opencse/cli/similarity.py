"""``opencse similarity``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opencse.cli.models import Trust

if TYPE_CHECKING:
    from opencse.analysis.calibration import Calibration


def similarity(
    model: Annotated[str, typer.Argument(help="Encoder: a folder, a Hub id, or opencse-mini.")],
    texts: Annotated[
        list[str], typer.Argument(help="A text and one or more others, each quoted.", metavar="TEXT OTHER...")
    ],
    pooling: Annotated[str | None, typer.Option(help="Replaces the model's own.")] = None,
    trust_remote_code: Trust = False,
) -> None:
    """Cosine similarity of one text to others, the most similar first.

    With a calibration in the model's folder (`opencse calibrate`) also how many random pairs of that text are below,
    and whether a pair is alike by its threshold.
    """
    from opencse.analysis.calibration import Calibration
    from opencse.cli.console import echo
    from opencse.cli.models import load_encoder
    from opencse.errors import UserError

    if len(texts) < 2:
        raise UserError("give at least two texts, each in quotes")
    encoder = load_encoder(model, pooling=pooling, trust_remote_code=trust_remote_code)
    calibration = Calibration.load(model, encoder) if pooling is None and Path(model).is_dir() else None
    row = encoder.similarity(texts[0], texts[1:])[0]
    for score, text in sorted(zip(row.tolist(), texts[1:], strict=True), reverse=True):
        echo(f"{score:.4f}{_meaning(score, calibration)}  {text}")


def _meaning(cosine: float, calibration: Calibration | None) -> str:
    if calibration is None:
        return ""
    threshold = calibration.best_f1
    alike = "" if threshold is None else "  alike" if cosine >= threshold.cosine else "       "
    return f"  above {calibration.percentile_of(cosine):5.1f} % of random pairs{alike}"
