"""``opencse finish``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opencse.cli import options as own


def finish(
    folder: Annotated[Path, typer.Argument(help="Folder of a run that was interrupted (train, adapt, pretrain).")],
    report: own.Report = True,
    trust_remote_code: own.Trust = False,
) -> None:
    """Make a usable model out of an interrupted run: that of its best step so far.

    The run may have been stopped or killed. Its checkpoint stays, so the run can still be continued with --resume.
    """
    from opencse.cli.loading import terminal

    progress = terminal()
    import opencse
    from opencse.cli.console import echo

    opencse.finish(folder, report=report, trust_remote_code=trust_remote_code, progress=progress)
    echo(str(folder))
