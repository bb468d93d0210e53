"""A text of numbered sentences, some longer than others, whose lines are not its rows."""

from __future__ import annotations

from pathlib import Path

from opencse.text.readers import Source

LINES = [f"sentence number {n} of the text" + " and more" * (n % 5) for n in range(23)]


def numbered(folder: Path) -> Source:
    """The sentences in a file of ``folder``, with an empty line after each."""
    path = folder / "a.txt"
    path.write_text("\n\n".join(LINES) + "\n")
    return Source(str(path))
