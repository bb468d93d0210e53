"""``opencse similarity``: cosine similarity of one text to others."""

from __future__ import annotations

from typing import Annotated, Unpack

import typer

from opencse.api.options.shared import ModelOptions
from opencse.cli.options import EncoderArgument, typed_and_read, with_options
from opencse.cli.typed import quoted


@with_options()
def similarity(
    model: EncoderArgument,
    texts: Annotated[
        list[str],
        typer.Argument(
            help="A text and one or more others, each quoted; - reads standard input, one text per line.",
            metavar="TEXT",
            parser=quoted,
        ),
    ],
    **options: Unpack[ModelOptions],
) -> None:
    """Print the similarity of one text to others, the most similar first.

    It is computed by the model's own function, the cosine if its folder names none.

    With a calibration in the model's folder (`opencse calibrate`), each line also shows which share of random pairs of
    that text has a lower cosine, and whether the pair is similar by its threshold.
    """
    from opencse.api.vectors import similarity
    from opencse.cli.console import echo
    from opencse.errors import UserError

    texts = typed_and_read(texts, None)
    if len(texts) < 2:
        raise UserError("give a model and at least two texts, each in quotes")
    for similar in similarity(model, texts[0], texts[1:], **options):
        meaning = "" if similar.above is None else f"  above {similar.above:5.1f} % of random pairs"
        function = "" if similar.function == "cosine" else f" {similar.function}"
        verdict = "" if similar.similar is None else "  similar" if similar.similar else "         "
        echo(f"{similar.score:.4f}{function}{meaning}{verdict}  {similar.text}")
