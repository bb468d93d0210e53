"""The command ``opencse serve``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from opencse.cli import options as own


class TooLong(StrEnum):
    """How to handle texts that are longer than the model reads."""

    CUT = "cut"
    REFUSE = "refuse"


def serve(
    models: Annotated[
        list[str], typer.Argument(help="Encoders: folders, Hub ids, or opencse-mini; two are shown next to each other.")
    ],
    index: Annotated[
        list[Path] | None, typer.Option(help="Folder of an index (opencse index build) to search; may be repeated.")
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(
            help="Name of a model in requests, in the models' order; may be repeated. By default the folder's name."
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    api_key_file: Annotated[
        Path | None,
        typer.Option(help="File of API keys, one per line; or set OPENCSE_API_KEY. By default no key is needed."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Host name that requests may use, for instance behind a proxy; may be repeated."),
    ] = None,
    too_long: Annotated[
        TooLong,
        typer.Option(help="Texts longer than the model reads, unless the request says otherwise: cut or refuse."),
    ] = TooLong.CUT,
    max_body: Annotated[int, typer.Option(min=1, help="Bytes in a request, at most.")] = 4 * 2**20,
    max_texts: Annotated[int, typer.Option(min=1, help="Texts in a request, at most.")] = 2_048,
    max_waiting: Annotated[
        int, typer.Option(min=1, help="Texts that may wait, at most; further requests get status 503.")
    ] = 8_192,
    grace: Annotated[
        float, typer.Option(min=1, help="Seconds that running requests get to finish when the server stops.")
    ] = 30,
    pooling: own.Pooling = None,
    device: own.Device = None,
    trust_remote_code: own.Trust = False,
) -> None:
    """Serve encoders over HTTP: OpenAI-style embeddings, search, and a web page to try them.

    It only listens on this machine unless --host says otherwise. Ctrl-C stops it when running requests are done.
    """
    from opencse.api.serving import serve
    from opencse.progress import Terminal

    serve(
        models,
        index=index,
        name=name,
        host=host,
        port=port,
        api_key_file=api_key_file,
        allow_host=allow_host,
        too_long=too_long.value,
        max_body=max_body,
        max_texts=max_texts,
        max_waiting=max_waiting,
        grace=grace,
        pooling=pooling,
        device=device,
        trust_remote_code=trust_remote_code,
        progress=Terminal(),
    )
