"""``opencse encode``: turn texts into vectors, in a file or folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Unpack

import typer

from opencse.api.options.encoding import EncodeOptions
from opencse.cli.options import EncoderArgument, path_of_out, with_options
from opencse.numerals import number_of


@with_options()
def encode(
    model: EncoderArgument,
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
            parser=path_of_out,
            metavar="OUT",
            help="FILE.npy, a folder (several files and a manifest), or - (JSON lines to standard output).",
        ),
    ],
    **options: Unpack[EncodeOptions],
) -> None:
    """Turn texts into vectors in a file or folder; after an interruption the same command continues."""
    import sys

    from opencse.api.encoding import encode
    from opencse.cli.console import echo

    to_stdout = str(out) == "-"
    written = encode(model, text, sys.stdout if to_stdout else out, **options)
    if to_stdout:
        return
    rate = (written.rows - written.before) / max(written.seconds, 1e-9)
    files = "" if written.files == 1 else f" in {number_of(written.files, 'file')}"
    echo(f"{out}: {number_of(written.rows, 'vector')} of {written.dimension} dimensions{files}, {rate:,.0f} texts/s")
