"""``opencse similarity``."""

from __future__ import annotations

from typing import Annotated

import typer

from opencse.cli import options as own


def similarity(
    model: own.Encoder,
    texts: Annotated[list[str], typer.Argument(help="A text and one or more others, each quoted.", metavar="TEXT")],
    pooling: own.Pooling = None,
    trust_remote_code: own.Trust = False,
) -> None:
    """Print the similarity of one text to others, the most similar first.

    It is computed by the model's own function, the cosine if its folder names none.

    With a calibration in the model's folder (`opencse calibrate`) also how many random pairs of that text are below,
    and whether a pair is similar by its threshold.
    """
    import opencse
    from opencse.cli.console import echo
    from opencse.errors import UserError
    from opencse.progress import Terminal

    if len(texts) < 2:
        raise UserError("give a model and at least two texts, each in quotes")
    found = opencse.similarity(
        model, texts[0], texts[1:], pooling=pooling, trust_remote_code=trust_remote_code, progress=Terminal()
    )
    for one in found:
        meaning = "" if one.above is None else f"  above {one.above:5.1f} % of random pairs"
        function = "" if one.function == "cosine" else f" {one.function}"
        verdict = "" if one.similar is None else "  similar" if one.similar else "         "
        echo(f"{one.score:.4f}{function}{meaning}{verdict}  {one.text}")
