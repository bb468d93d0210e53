"""``opencse analyze``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opencse.cli import options as own


def analyze(
    models: Annotated[
        list[str],
        typer.Argument(
            help="Encoders: folders (also of an unfinished run), Hub ids, opencse-mini, words:FILE, bag-of-words.",
            metavar="MODEL",
        ),
    ],
    out: Annotated[Path, own.out("of report.html and report.json")] = Path("analysis"),
    text: Annotated[
        str | None,
        typer.Option("--text", help="File of your own sentences, for neighbours, calibration and layers."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="Folder with the STS tasks (or with sts/ in it), or 'hub' to download them; by default none."
        ),
    ] = None,
    pairs: Annotated[str, typer.Option(help="Graded pairs: a file, or 'sample' (built in).")] = "sample",
    query: Annotated[
        list[str] | None,
        typer.Option("--query", "-q", help="Sentence whose nearest neighbours are shown; may be repeated."),
    ] = None,
    columns: own.OwnColumns = None,
    pooling: own.Pooling = None,
    device: own.Device = None,
    trust_remote_code: own.Trust = False,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Write a page about one model or several side by side: verdict, scores, geometry, layers, neighbours."""
    from opencse.cli.loading import terminal

    progress = terminal()
    import webbrowser

    import opencse
    from opencse.cli.console import echo

    opencse.analyze(
        models,
        out,
        text=text,
        columns=own.listed(columns),
        data=data,
        pairs=pairs,
        queries=query,
        pooling=pooling,
        device=device,
        trust_remote_code=trust_remote_code,
        progress=progress,
    )
    page = out / "report.html"
    echo(str(page))
    if show:
        webbrowser.open(page.resolve().as_uri())
