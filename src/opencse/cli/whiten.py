"""``opencse whiten``: whiten an encoder with a linear map fitted on a text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Unpack

from opencse.api.options.making import WhitenOptions
from opencse.cli.options import EncoderArgument, TextArgument, folder_option, with_options


@with_options()
def whiten(
    model: EncoderArgument,
    text: TextArgument,
    out: Annotated[Path, folder_option("for the whitened encoder")],
    **options: Unpack[WhitenOptions],
) -> None:
    """Whiten an encoder: fit a linear map on the vectors of a text and save it as the encoder's last layer.

    A baseline that takes minutes (BERT-whitening), and a way to shorter vectors. --remove N removes the mean and the
    first N principal components instead (all-but-the-top).
    """
    from opencse.api.making import whiten
    from opencse.cli.console import echo

    whiten(model, text, out, **options)
    echo(str(out))
