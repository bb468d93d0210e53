"""``opencse analyze``: write a page about one model, or several side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Unpack

import typer

from opencse.api.options.looking import AnalyzeOptions
from opencse.cli.options import folder_option, with_options


@with_options()
def analyze(
    models: Annotated[
        list[str],
        typer.Argument(
            help="Encoders: folders (also of an unfinished run), Hub ids, opencse-mini, words:FILE, bag-of-words.",
            metavar="MODEL",
        ),
    ],
    out: Annotated[Path, folder_option("of report.html and report.json")] = Path("analysis"),
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    **options: Unpack[AnalyzeOptions],
) -> None:
    """Write a page about one model or several side by side: verdict, scores, geometry, layers, neighbours."""
    import webbrowser

    from opencse.api.looking import analyze
    from opencse.cli.console import echo

    analyze(models, out, **options)
    page = out / "report.html"
    echo(str(page))
    if show:
        webbrowser.open(page.resolve().as_uri())
