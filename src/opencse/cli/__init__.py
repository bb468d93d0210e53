"""The command line. Every command imports what it needs when it runs, so that ``--help`` is fast."""

from __future__ import annotations

import io
import os
import sys

from opencse.errors import InterruptedRunError, UserError, masked, printable, reason, system_failure

INTERRUPTED = 130
_NOT_SHOWN = 1
_SPINS = "5000"
"""Rounds for which a thread that waits for the others stays on its processor: about a millisecond or less."""


def main() -> None:
    """The ``opencse`` command: errors of the input in one line and exit code 2, Ctrl-C in one line and 130.

    Other errors take one line and exit code 1; with ``OPENCSE_TRACEBACK=1`` Python shows where they come from.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal of few characters shows the codes of others
            stream.reconfigure(errors="backslashreplace")
    _wait_briefly()
    try:
        code = _run()
        _require_shown()
    except UserError as error:
        sys.stderr.write(f"{_speaker()}: {printable(masked(str(error)))}\n")
        code = 2
    except InterruptedRunError as stopped:
        sys.stderr.write(f"opencse: {printable(str(stopped))}\n")
        code = INTERRUPTED
    except Exception as error:
        if os.environ.get("OPENCSE_TRACEBACK"):
            raise
        fault = printable(masked(f"{type(error).__name__}: {reason(error)}"))
        sys.stderr.write(
            f"{_speaker()}: {fault}; a wrong input, or a fault of opencse: OPENCSE_TRACEBACK=1 shows where\n"
        )
        code = 1
    sys.exit(code)


def _wait_briefly() -> None:
    """Makes torch's threads give up their processor soon while they wait for each other; called before torch is loaded.

    By default GNU's thread library waits 300,000 rounds, some 20 ms on a new processor, at the end of every operation,
    while other work may hold the processor that is waited for. A setting of the user stays.
    """
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = _SPINS


def _run() -> int:
    """Runs the command and returns its exit code."""
    from typer import TyperException

    from opencse.cli.app import app

    try:
        code: int | None = app(standalone_mode=False)
    except TyperException as error:  # an option or argument is missing, unknown or of the wrong kind
        message = " ".join(error.format_message().split()).replace(": Value error, ", ": ", 1)  # pydantic's prefix
        raise UserError(f"{message} (see --help)") from None
    except OSError as error:
        _require_shown()  # ends here if printing failed
        failure = system_failure(error)
        if failure is None:
            raise
        raise UserError(failure) from error
    if code == INTERRUPTED:  # typer's code for Ctrl-C; commands raise InterruptedRunError themselves
        raise InterruptedRunError("stopped")
    return code or 0


def _speaker() -> str:
    """The name before messages: ``opencse``, with the number of the process unless it is the first."""
    rank = os.environ.get("RANK", "0")
    return "opencse" if rank == "0" else f"opencse (process {printable(rank)})"


def _require_shown() -> None:
    """Ends the process if output did not reach stdout; silently where a pipe was closed."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _give_up_stdout()
        sys.exit(_NOT_SHOWN)
    except OSError as error:
        _give_up_stdout()
        raise UserError(f"the standard output cannot be written ({reason(error)}); make room there") from None


def _give_up_stdout() -> None:
    """Discards the rest of stdout's buffer, so that Python does not try to write it again when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
