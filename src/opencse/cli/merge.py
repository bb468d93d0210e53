"""``opencse merge``: merge adapters (LoRA) into their model, in a folder that opens anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Unpack

import typer

from opencse.api.options.shared import ProgressOptions
from opencse.cli.options import folder_option, with_options


@with_options()
def merge(
    adapters: Annotated[str, typer.Argument(help="Adapters: a folder with adapter_config.json, or a Hub id.")],
    out: Annotated[Path, folder_option("for the merged encoder")],
    **options: Unpack[ProgressOptions],
) -> None:
    """Merge adapters (LoRA) into the model they belong to, and write an encoder that opens anywhere."""
    from opencse.api.sharing import merge
    from opencse.cli.console import echo

    merge(adapters, out, **options)
    echo(str(out))
