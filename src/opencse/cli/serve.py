"""The command ``opencse serve``."""

from __future__ import annotations

from typing import Annotated, Unpack

import typer

from opencse.api.options.serving import ServeOptions
from opencse.cli.options import with_options


@with_options()
def serve(
    models: Annotated[
        list[str],
        typer.Argument(help="Encoders: folders, Hub ids, or opencse-mini; two are shown next to each other."),
    ],
    **options: Unpack[ServeOptions],
) -> None:
    """Serve encoders over HTTP: OpenAI-style embeddings, search, and a web page to try them.

    It only listens on this machine unless --host says otherwise. Ctrl-C stops it when running requests are done.
    """
    from opencse.api.serving import serve

    serve(models, **options)
