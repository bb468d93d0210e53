"""``opencse finish``: make a usable model out of an interrupted run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Unpack

import typer

from opencse.api.options.shared import FinishOptions
from opencse.cli.options import with_options


@with_options()
def finish(
    folder: Annotated[Path, typer.Argument(help="Folder of a run that was interrupted (train, adapt, pretrain).")],
    **options: Unpack[FinishOptions],
) -> None:
    """Make a usable model out of an interrupted run: the model of its best step so far.

    The run may have been stopped or killed. Its checkpoint stays, so the run can still be continued with --resume.
    """
    from opencse.api.finishing import finish
    from opencse.cli.console import echo

    finish(folder, **options)
    echo(str(folder))
