"""``opencse encode``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from opencse.cli.models import Trust


class Precision(StrEnum):
    """Arithmetic of the forward pass."""

    FLOAT32 = "float32"
    BF16 = "bf16"


def encode(
    model: Annotated[str, typer.Argument(help="Encoder: a folder, a Hub id, or opencse-mini.")],
    text: Annotated[str, typer.Argument(help="Text file, one text a line or with --column.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the vectors: .npy, (texts, dimension) float32.")],
    column: Annotated[str | None, typer.Option(help="Column to read, by name or position.")] = None,
    normalize: Annotated[bool, typer.Option("--normalize", help="Cut the vectors to unit length.")] = False,
    precision: Annotated[
        Precision, typer.Option(help="bf16 is faster where the processor has it.")
    ] = Precision.FLOAT32,
    pooling: Annotated[str | None, typer.Option(help="Replaces the model's own.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps; by default a GPU if there is one.")] = None,
    trust_remote_code: Trust = False,
) -> None:
    """Turn texts into vectors."""
    import time

    import numpy as np

    from opencse.cli.console import ConsoleReporter, echo
    from opencse.cli.models import load_encoder
    from opencse.errors import UserError
    from opencse.text.readers import Source

    if out.suffix != ".npy":
        raise UserError(f"{out}: vectors are written as .npy; name the file so")
    texts = [row[0] for row in Source(text, columns=(column,) if column else None).read().rows]
    encoder = load_encoder(model, pooling=pooling, device=device, trust_remote_code=trust_remote_code)
    reporter = ConsoleReporter()
    reporter.start("encoding", len(texts))
    started = time.perf_counter()
    try:
        vectors = encoder.encode(
            texts,
            normalize=normalize,
            precision=precision.value,
            progress=lambda done, _: reporter.advance(done),
        )
    finally:
        reporter.finish()
    seconds = time.perf_counter() - started
    try:
        with out.open("wb") as stream:
            np.save(stream, vectors)
    except OSError as error:
        raise UserError(f"{out}: cannot be written ({error})") from None
    echo(f"{out}: {len(vectors):,} vectors of {vectors.shape[1]}, {len(texts) / seconds:,.0f} texts/s")
