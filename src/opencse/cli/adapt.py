"""``opencse adapt``: adapt an encoder to your documents; no labels needed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Unpack

import typer

from opencse.api.options.training import AdaptOptions
from opencse.cli.options import SeedOption, folder_option, settings_with, with_options


@with_options()
def adapt(
    corpus: Annotated[
        str,
        typer.Argument(
            help="Documents: a file (one sentence per line with blank lines between documents; JSON or a table with "
            "title and text; Markdown, HTML, PDF, e-mail, ...), a folder of such files, or one in BEIR's layout."
        ),
    ],
    out: Annotated[Path, folder_option("for the adapted encoder")],
    seed: SeedOption = None,
    **options: Unpack[AdaptOptions],
) -> None:
    """Adapt an encoder to your documents; no labels needed, questions with answers welcome.

    It learns from titles with their texts, neighbouring sentences and texts that share rare words. Some documents are
    held out; questions about them select the encoder that is kept: a step, its average with the start, or the start.
    """
    from opencse.api.training import adapt
    from opencse.cli.console import show_run

    options["settings"] = settings_with(options["settings"], seed=seed)
    show_run(adapt(corpus, out, **options), options["dry_run"])
