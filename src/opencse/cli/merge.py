"""``opencse merge``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opencse.cli import options as own


def merge(
    adapters: Annotated[str, typer.Argument(help="Adapters: a folder with adapter_config.json, or a Hub id.")],
    out: Annotated[Path, own.out("for the merged encoder")],
) -> None:
    """Merge adapters (LoRA) into the model they belong to, and write an encoder that opens anywhere."""
    import opencse
    from opencse.cli.console import echo
    from opencse.progress import Terminal

    opencse.merge(adapters, out, progress=Terminal())
    echo(str(out))
