"""A text of numbered sentences, some longer than others."""

from __future__ import annotations

from pathlib import Path

from opencse.text.readers import Source

LINES = [f"sentence number {n} of the text" + " and more" * (n % 5) for n in range(23)]


def numbered(folder: Path) -> Source:
    """The sentences in a file of ``folder``, one per line."""
    path = folder / "a.txt"
    path.write_text("\n".join(LINES) + "\n")
    return Source(str(path))
