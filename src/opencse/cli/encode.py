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
    text: Annotated[str, typer.Argument(help="Text file, one text a line or with --column; - reads standard input.")],
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
    """Turn texts into vectors, written as they are made; the same command goes on where it was broken off."""
    from opencse.cli.console import ConsoleReporter, echo
    from opencse.encoder.streaming import encode_file
    from opencse.errors import InterruptedRunError
    from opencse.text.readers import Source
    from opencse.training.reporter import Counted

    reporter = ConsoleReporter()
    try:
        made = encode_file(
            Source(text, columns=(column,) if column else None),
            out,
            model,
            normalize=normalize,
            precision=precision.value,
            pooling=pooling,
            device=device,
            trust_remote_code=trust_remote_code,
            progress=Counted(reporter, "encoding"),
            say=reporter.say,
        )
    except KeyboardInterrupt:
        raise InterruptedRunError("stopped; the same command goes on where it was") from None
    finally:
        reporter.finish()
    rate = (made.rows - made.before) / max(made.seconds, 1e-9)
    echo(f"{out}: {made.rows:,} vectors of {made.dimension}, {rate:,.0f} texts/s")
