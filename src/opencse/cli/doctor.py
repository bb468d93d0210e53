"""``opencse doctor``: find common problems; versions and hardware for a bug report."""

from __future__ import annotations


def doctor() -> None:
    """Find common problems, and print versions and hardware to paste into a bug report."""
    from opencse.api.diagnosis import doctor
    from opencse.cli.console import echo

    for line in doctor().lines():
        echo(line)
