"""``opencse push``: put an encoder on the Hub, with its card."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Unpack

import typer

from opencse.api.options.sharing import PushOptions
from opencse.cli.options import with_options


@with_options()
def push(
    folder: Annotated[Path, typer.Argument(help="Folder of an encoder, a run, or adapters.")],
    repo_id: Annotated[str, typer.Argument(help="Name on the Hub: owner/name, or a name under your own account.")],
    **options: Unpack[PushOptions],
) -> None:
    """Put an encoder on the Hub, with its card.

    The token is read from `hf auth login` or HF_TOKEN. The model's files are uploaded; a run's records stay here.
    """
    from opencse.api.sharing import push
    from opencse.cli.console import echo

    echo(push(folder, repo_id, **options))
