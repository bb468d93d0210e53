"""``opencse encode``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from opencse.cli import options as own


class Precision(StrEnum):
    """Arithmetic of the forward pass."""

    FLOAT32 = "float32"
    BF16 = "bf16"


def encode(
    model: own.Encoder,
    text: Annotated[str, typer.Argument(help="Text file, one text a line or with --column; - reads standard input.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the vectors: .npy, (texts, dimension) float32.")],
    column: Annotated[str | None, typer.Option(help="Column to read, by name or position.")] = None,
    normalize: Annotated[bool, typer.Option("--normalize", help="L2-normalise the vectors.")] = False,
    precision: Annotated[
        Precision, typer.Option(help="bf16 is faster where the processor has it.")
    ] = Precision.FLOAT32,
    pooling: own.Pooling = None,
    device: own.Device = None,
    trust_remote_code: own.Trust = False,
) -> None:
    """Turn texts into vectors, written as they are made; the same command goes on where it was broken off."""
    import opencse
    from opencse.cli.console import echo
    from opencse.progress import Terminal

    made = opencse.encode(
        model,
        text,
        out,
        column=column,
        normalize=normalize,
        precision=precision.value,
        pooling=pooling,
        device=device,
        trust_remote_code=trust_remote_code,
        progress=Terminal(),
    )
    rate = (made.rows - made.before) / max(made.seconds, 1e-9)
    echo(f"{out}: {made.rows:,} vectors of {made.dimension} dimensions, {rate:,.0f} texts/s")
