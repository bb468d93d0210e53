"""Finds words and phrases that a reader has to guess at, with what to write: ``python tools/words.py``.

The list is ``words.toml`` next to this file. Exit code 1 where something is found.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
TEXTS = (".md", ".ipynb", ".jinja", ".html", ".toml", ".js", ".css")


def table() -> dict[str, str]:
    """Phrases with their replacements."""
    listed: dict[str, str] = tomllib.loads((HERE / "words.toml").read_text(encoding="utf-8"))["phrases"]
    return listed


def files(root: Path) -> list[Path]:
    """The files that people read."""
    found = [root / "README.md", root / "CHANGELOG.md", root / "CONTRIBUTING.md"]
    for folder in ("src", "docs", "examples"):
        found += [path for path in (root / folder).rglob("*") if path.suffix in (".py", *TEXTS)]
    return sorted(path for path in found if path.is_file())


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are read as language, with their numbers: of Python, comments and strings."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(text.splitlines(), start=1)
        return
    spoken = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in spoken:
            yield from enumerate(token.string.splitlines(), start=token.start[0])


def phrases(root: Path) -> list[str]:
    """Every place where a phrase of the list is, with the replacement."""
    patterns = {re.compile(pattern, re.IGNORECASE): instead for pattern, instead in table().items()}
    return [
        f"{path.relative_to(root)}:{number}: {match[0]!r}: write {instead}"
        for path in files(root)
        for number, line in prose(path)
        for pattern, instead in patterns.items()
        for match in pattern.finditer(line)
    ]


def main() -> int:
    """Prints what was found; 0 if nothing."""
    lines = phrases(HERE.parent)
    if lines:
        print(*lines, f"{len(lines)} phrases to replace; the list is tools/words.toml", sep="\n")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
