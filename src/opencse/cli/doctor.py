"""``opencse doctor``."""

from __future__ import annotations


def doctor() -> None:
    """Find common problems, and print versions and hardware to paste into a bug report."""
    import opencse
    from opencse.cli.console import echo

    for line in opencse.doctor().lines():
        echo(line)
