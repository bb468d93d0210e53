"""Formats search hits: in a terminal a few lines of its width, elsewhere one text per line."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from opencse.search.stems import Stems

LINES = 3
"""Lines of a text that a terminal shows."""
_INDENT = "    "
_BEFORE = 30
"""Characters shown before the first matching word."""


def blocks(
    head: Sequence[str], text: str, console: Console, *, full: bool = False, query: str = "", stems: Stems = list
) -> Iterator[str]:
    """The lines of one hit.

    Args:
        head: rank, score, id and metadata of the hit.
        text: the passage.
        console: where the hit is printed; outside a terminal it is one line, separated by tabs, the text last.
        full: show the whole text in a terminal.
        query: begin where the text has most of this query's words; empty: at the beginning of the text.
        stems: reduces words to the stems by which they are compared.
    """
    joined = " ".join(text.split())
    if not console.is_terminal:
        yield "\t".join([*(" ".join(part.split()) for part in head), joined])
        return
    yield "  ".join(part for part in head if part)
    width = max(20, console.width - len(_INDENT))
    start = 0 if full or not query else best_start(joined, query, LINES * width, stems)
    lines = _wrapped(f"…{joined[start:]}" if start else joined, width, console)
    if not full and len(lines) > LINES:
        lines = [*lines[: LINES - 1], _wrapped(f"{lines[LINES - 1]} ", width - 1, console)[0].rstrip() + "…"]
    yield from (f"{_INDENT}{line}" for line in lines)


def best_start(text: str, query: str, length: int, stems: Stems) -> int:
    """The position from which ``length`` characters have most of a query's words; 0 where the beginning has as many."""
    from opencse.text.scripts import pieces_of, search_words

    query_stems = set(stems(search_words(query)))
    pieces = pieces_of(text)
    matches = [
        (start, shared)
        for start, end in pieces
        if (shared := query_stems.intersection(stems(search_words(text[start:end]))))
    ]

    def covered(begin: int) -> int:
        within: list[Collection[str]] = [
            words for position, words in matches if begin <= position < begin + length - _BEFORE
        ]
        return len({word for words in within for word in words})

    best = max([0, *(position for position, _ in matches)], key=lambda position: (covered(position), -position))
    if best < length - _BEFORE and covered(0) == covered(best):
        return 0
    return max([0, *(start for start, _ in pieces if start <= best - _BEFORE)])


def _wrapped(text: str, width: int, console: Console) -> list[str]:
    from rich.text import Text

    return [line.plain.rstrip() for line in Text(text).wrap(console, width)] or [""]
