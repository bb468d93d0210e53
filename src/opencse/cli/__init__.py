"""What a person types. Every command loads what it needs when it runs, so that ``--help`` is quick."""

from __future__ import annotations

import sys

from opencse.errors import UserError

INTERRUPTED = 130


def main() -> None:
    """The ``opencse`` command: errors of the input in one line and exit code 2."""
    from typer import TyperException

    from opencse.cli.app import app

    try:
        sys.exit(app(standalone_mode=False))
    except UserError as error:
        sys.stderr.write(f"opencse: {error}\n")
    except TyperException as error:  # an option or argument that is missing, unknown or of the wrong kind
        sys.stderr.write(f"opencse: {' '.join(error.format_message().split())} (see --help)\n")
    sys.exit(2)
