"""``opencse push``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def push(
    folder: Annotated[Path, typer.Argument(help="Folder of an encoder, a run, or adapters.")],
    repo_id: Annotated[str, typer.Argument(help="Name on the Hub: owner/name, or a name under your own account.")],
    private: Annotated[
        bool | None,
        typer.Option("--private/--public", help="Who may see a new repository; by default your account's setting."),
    ] = None,
    exist_ok: Annotated[bool, typer.Option("--exist-ok", help="Add a version if the repository exists.")] = False,
    revision: Annotated[
        str | None, typer.Option(help="Branch to write to, created if needed; by default main.")
    ] = None,
    create_pr: Annotated[
        bool, typer.Option("--create-pr", help="Open a pull request instead of writing to the branch.")
    ] = False,
    commit_message: Annotated[str | None, typer.Option("--message", help="Message of the commit.")] = None,
) -> None:
    """Put an encoder on the Hub, with its card.

    The token is that of `hf auth login`, or HF_TOKEN. The model's files go there; a run's records stay here.
    """
    import opencse
    from opencse.cli.console import echo
    from opencse.progress import Terminal

    echo(
        opencse.push(
            folder,
            repo_id,
            private=private,
            exist_ok=exist_ok,
            revision=revision,
            create_pr=create_pr,
            commit_message=commit_message,
            progress=Terminal(),
        )
    )
