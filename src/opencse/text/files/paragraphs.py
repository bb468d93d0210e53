"""Sections of documents, and the joining of lines into paragraphs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace

from opencse.text.names import UniqueNames

FEWEST_PAGES = 5
"""Fewest pages of which lines that repeat on most of them are left out."""
_COMPARED, _EDGE = 500, 1_000
_WIDEST = 200
"""Number of characters: a file with longer lines is not wrapped at a width."""


@dataclass(frozen=True)
class Section:
    """A document, or a part of one under a heading.

    Attributes:
        name: the file in its folder and the heading, as in a link: ``guide/valves.md#closing-a-valve``; or the name of
            a document in its file (the id of a message).
        title: of the page and of the section; empty if there is none.
        paragraphs: at least one unless there is a title; none is empty.
    """

    name: str
    title: str
    paragraphs: tuple[str, ...]


class Headed:
    """Collects the paragraphs under each heading of a page.

    Args:
        page: its title, if known; else the first heading is its title.
    """

    def __init__(self, page: str = "") -> None:
        self._page = page
        self._parts: list[tuple[str, str, list[str]]] = [("", page, [])]

    def heading(self, text: str) -> None:
        """Begins a section."""
        text = " ".join(text.split())
        if not text:
            return
        self._page = self._page or text
        same = text.casefold() == self._page.casefold()
        self._parts.append((text, self._page if same else f"{self._page}: {text}", []))

    def paragraph(self, text: str) -> None:
        """Adds a paragraph, if it holds any text."""
        if text := text.strip():
            self._parts[-1][-1].append(text)

    def sections(self, name: str) -> Iterator[Section]:
        """The sections that have a paragraph, each named by the file and its heading; the title alone if none has."""
        if self._page and not any(paragraphs for _, _, paragraphs in self._parts):
            yield Section(name, self._page, ())
        names = UniqueNames()
        for heading, title, paragraphs in self._parts:
            anchor = "-".join(re.findall(r"[\w-]+", heading.lower()))
            address = names.unique(name + (f"#{anchor}" if anchor else ""))
            if paragraphs:
                yield Section(address, title, tuple(paragraphs))


def repeated_lines(pages: Sequence[Iterable[Section]]) -> frozenset[str]:
    """The paragraphs that more than half of the pages have, in lower case; none of fewer than `FEWEST_PAGES` pages.

    Of many pages `_COMPARED` are looked at, and of each the first and last `_EDGE` paragraphs.

    Example:
        >>> pages = [[Section(f"{n}.html", "", ("Program 7.4 Help", f"Text {n}."))] for n in range(5)]
        >>> repeated_lines(pages), repeated_lines(pages[:4])
        (frozenset({'program 7.4 help'}), frozenset())
    """
    if len(pages) < FEWEST_PAGES:
        return frozenset()
    pages = pages[:: -(-len(pages) // _COMPARED)]
    counts: Counter[str] = Counter()
    for page in pages:
        lines = [line.casefold() for section in page for line in section.paragraphs]
        counts.update({*lines[:_EDGE], *lines[-_EDGE:]})
    return frozenset(line for line, count in counts.items() if 2 * count > len(pages))


def without_lines(page: Iterable[Section], lines: Set[str]) -> list[Section]:
    """The sections of a page without some paragraphs, those that had no others left out; all if nothing else is there.

    Example:
        >>> page = [Section("a.html", "A", ("Program 7.4 Help",)), Section("a.html#b", "A: B", ("Text.",))]
        >>> [section.name for section in without_lines(page, {"program 7.4 help"})]
        ['a.html#b']
    """
    page = list(page)
    left = [
        replace(section, paragraphs=tuple(one for one in section.paragraphs if one.casefold() not in lines))
        for section in page
    ]
    return [section for section in left if section.paragraphs] or page


def join_lines(lines: Iterable[str]) -> list[str]:
    """Joins lines to paragraphs where the first word of the next line did not fit into the width of the file."""
    lines = list(lines)
    width = max(map(len, lines), default=0)
    paragraphs: list[str] = []
    room: int | None = None  # characters that were free in the line before
    for line in lines:
        text = " ".join(line.split())
        if not text:
            room = None
            continue
        if room is not None and width <= _WIDEST and len(text.split()[0]) >= room:
            paragraphs[-1] += f" {text}"
        else:
            paragraphs.append(text)
        room = width - len(line.rstrip())
    return paragraphs


def blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    """Groups of lines between blank lines."""
    run: list[str] = []
    for line in (*lines, ""):
        if line.strip():
            run.append(line)
        elif run:
            yield run
            run = []
