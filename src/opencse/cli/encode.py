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


class Numbers(StrEnum):
    """What vectors are written as."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    INT8 = "int8"
    BINARY = "binary"


class Format(StrEnum):
    """Kinds of files in a folder."""

    NPY = "npy"
    PARQUET = "parquet"


def encode(
    model: own.Encoder,
    text: Annotated[
        str,
        typer.Argument(
            help="Text file, one text per line; a table or JSON (--column); or documents; - reads standard input."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            parser=own.place,
            metavar="OUT",
            help="FILE.npy, a folder (several files and a manifest), or - (JSON lines to standard output).",
        ),
    ],
    column: Annotated[str | None, typer.Option(help="Column to read, by name or position.")] = None,
    fields: own.Fields = None,
    keep_code: own.KeepCode = False,
    prompt_name: Annotated[
        str | None,
        typer.Option(help="Prompt of the model to put before each text: query, document, ...; by default its default."),
    ] = None,
    prompt: Annotated[str | None, typer.Option(help="Text to put before each text, in place of a prompt.")] = None,
    normalize: Annotated[bool, typer.Option("--normalize", help="L2-normalise the vectors.")] = False,
    dimensions: Annotated[
        int | None, typer.Option(min=1, help="Keep only the first N dimensions of each vector; by default all.")
    ] = None,
    numbers: Annotated[
        Numbers, typer.Option(help="Type of the numbers; int8 and binary keep directions (cosines), not lengths.")
    ] = (Numbers.FLOAT32),
    file_format: Annotated[Format, typer.Option("--format", help="Files in a folder.")] = Format.NPY,
    shard_rows: Annotated[int, typer.Option(min=1, help="Vectors in each file of a folder.")] = 32_768,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes that fill a folder; by default one for each GPU or core.")
    ] = None,
    engine: own.Engine = own.EngineName.LOCAL,
    precision: Annotated[
        Precision, typer.Option(help="Arithmetic; bf16 is faster where the processor has it, and almost as exact.")
    ] = Precision.FLOAT32,
    pooling: own.Pooling = None,
    device: own.Device = None,
    trust_remote_code: own.Trust = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace FILE.npy if it is there.")] = False,
) -> None:
    """Turn texts into vectors in a file or folder; after an interruption the same command continues."""
    import sys

    import opencse
    from opencse.cli.console import echo
    from opencse.progress import Terminal

    to_stdout = str(out) == "-"
    made = opencse.encode(
        model,
        text,
        sys.stdout if to_stdout else out,
        column=column,
        fields=own.listed(fields),
        keep_code=keep_code,
        prompt_name=prompt_name,
        prompt=prompt,
        normalize=normalize,
        numbers=numbers.value,
        dimensions=dimensions,
        file_format=file_format.value,
        shard_rows=shard_rows,
        processes=processes,
        engine=engine.value,
        precision=precision.value,
        pooling=pooling,
        device=device,
        trust_remote_code=trust_remote_code,
        overwrite=overwrite,
        progress=Terminal(),
    )
    if to_stdout:
        return
    rate = (made.rows - made.before) / max(made.seconds, 1e-9)
    files = "" if made.files == 1 else f" in {made.files:,} files"
    echo(f"{out}: {made.rows:,} vectors of {made.dimension} dimensions{files}, {rate:,.0f} texts/s")
