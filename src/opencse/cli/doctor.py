"""``opencse doctor``."""

from __future__ import annotations


def doctor() -> None:
    """Tell versions, hardware and choices, and try the built-in encoder: what to paste into a bug report."""
    import opencse
    from opencse.cli.console import echo

    for line in opencse.doctor().lines():
        echo(line)
