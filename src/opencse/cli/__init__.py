"""What a person types. Every command loads what it needs when it runs, so that ``--help`` is quick."""

from __future__ import annotations

import os
import sys

from opencse.errors import UserError

INTERRUPTED = 130


def main() -> None:
    """The ``opencse`` command: errors of the input in one line and exit code 2, Ctrl-C 130."""
    from opencse.cli.app import app

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    try:
        app(standalone_mode=False)
    except UserError as error:
        _fail(str(error), 2)
    except KeyboardInterrupt:
        _fail("stopped", INTERRUPTED)
    except Exception as error:
        _known(error)
        raise


def _known(error: Exception) -> None:
    """Ends the process for exceptions that are no defects of this program."""
    import click

    if isinstance(error, click.exceptions.Exit):
        sys.exit(error.exit_code)
    if isinstance(error, click.exceptions.Abort):
        _fail("stopped", INTERRUPTED)
    if isinstance(error, click.ClickException):
        error.show()
        sys.exit(error.exit_code)


def _fail(message: str, code: int) -> None:
    sys.stderr.write(f"opencse: {message}\n")
    sys.exit(code)
