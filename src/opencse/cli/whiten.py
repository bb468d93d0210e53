"""``opencse whiten``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opencse.cli import options as own


def whiten(
    model: own.Encoder,
    text: own.Text,
    out: Annotated[Path, own.out("for the whitened encoder")],
    dimension: Annotated[
        int | None, typer.Option(min=1, help="Keep the first N dimensions; by default all that vary.")
    ] = None,
    sentences: Annotated[
        int, typer.Option(min=1, help="Number of different texts of TEXT that it is fitted on, drawn at random.")
    ] = 50_000,
    columns: own.OwnColumns = None,
    split: own.Split = "train",
    pooling: own.Pooling = None,
    device: own.Device = None,
    trust_remote_code: own.Trust = False,
) -> None:
    """Whiten an encoder: fit a linear map on the vectors of a text and save it as the encoder's last layer.

    A baseline that takes minutes (BERT-whitening), and a way to shorter vectors.
    """
    import opencse
    from opencse.cli.console import echo
    from opencse.progress import Terminal

    opencse.whiten(
        model,
        text,
        out,
        dimension=dimension,
        sentences=sentences,
        columns=own.listed(columns),
        split=split,
        pooling=pooling,
        device=device,
        trust_remote_code=trust_remote_code,
        progress=Terminal(),
    )
    echo(str(out))
