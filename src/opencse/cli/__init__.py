"""What a person types. Every command loads what it needs when it runs, so that ``--help`` is quick."""

from __future__ import annotations

import sys

from opencse.errors import UserError, printable

INTERRUPTED = 130


def main() -> None:
    """The ``opencse`` command: errors of the input in one line and exit code 2."""
    from opencse.cli.app import app

    try:
        app()
    except UserError as error:
        sys.stderr.write(f"opencse: {printable(str(error))}\n")
        sys.exit(2)
