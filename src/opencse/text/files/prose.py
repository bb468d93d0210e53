"""Sections of documents: of Markdown and reStructuredText the text under each heading, of others the joined lines."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

FEWEST_PAGES = 5
"""Fewest pages of which lines that repeat on most of them are left out."""
_COMPARED, _EDGE = 500, 1_000
_WIDEST = 200
"""Number of characters: a file with longer lines is not wrapped at a width."""
_FRONT_MATTER = re.compile(
    r"\A(?:---[ \t]*\n(?P<yaml>.*?\n)??(?:---|\.\.\.)|\+\+\+[ \t]*\n(?P<toml>.*?\n)??\+\+\+)[ \t]*(?:\n|\Z)",
    flags=re.DOTALL,
)
_TITLE_LINE = re.compile(r"^title[ \t]*[:=][ \t]*([^\s*&!|>\[{].*)$", flags=re.MULTILINE | re.IGNORECASE)
_KEY_LINE = re.compile(r"\s*(?:#[^\n]*\s+)*[\w\"'][\w\"'. -]*[:=]")
_UNDERLINE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}\s*")
_ROLE = re.compile(r":[\w:-]+:`([^`<]*?)\s*(?:<[^`>]*>)?`|`([^`<]*?)\s*(?:<[^`>]*>)?`_{0,2}")


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


class UniqueNames:
    """Makes names unique: one that is taken gets the next number with which nothing is called.

    Example:
        >>> names = UniqueNames()
        >>> [names.unique(name) for name in ("example", "example", "example-1", "example")]
        ['example', 'example-1', 'example-1-1', 'example-2']

    Args:
        taken: names that others have.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._numbers: dict[str, int] = dict.fromkeys(taken, 0)

    def unique(self, name: str) -> str:
        """The name, with a number behind it where it was given before."""
        free, number = name, self._numbers.get(name, 0)
        while free in self._numbers:
            number += 1
            free = f"{name}-{number}"
        self._numbers |= {free: 0, name: number}
        return free


class Headed:
    """Collects the paragraphs under each heading of a page.

    Args:
        page: its title, if known; else the first heading is its title.
    """

    def __init__(self, page: str) -> None:
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


def split_front_matter(source: str) -> tuple[str, str]:
    r"""Splits a page into the title in its front matter (YAML between ``---``, TOML between ``+++``) and its text.

    If the front matter is not valid YAML or TOML, its line ``title`` is used. Lines between two rules (``---``) without
    any key are text.

    Example:
        >>> split_front_matter('---\ntitle: "A page"\n---\nText.\n')
        ('A page', 'Text.\n')
    """
    match = _FRONT_MATTER.match(source)
    if match is None:
        return "", source
    facts = _facts(match["yaml"], match["toml"])
    if facts is None:
        if not _KEY_LINE.match(match["toml"] or match["yaml"] or ""):
            return "", source
        line = _TITLE_LINE.search(match[0])
        return (line[1].strip().strip("\"'") if line else ""), source[match.end() :]
    title = facts.get("title")
    return "" if title is None or isinstance(title, dict | list) else " ".join(str(title).split()), source[
        match.end() :
    ]


def _facts(yaml_text: str | None, toml_text: str | None) -> Mapping[str, object] | None:
    """The values in front matter; None if it is not valid, or has none."""
    if toml_text is not None:
        try:
            return tomllib.loads(toml_text)
        except (tomllib.TOMLDecodeError, RecursionError):
            return None
    import yaml

    try:
        facts = yaml.safe_load(yaml_text or "{}")
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    if facts is None and all(line.startswith("#") for line in (yaml_text or "").split("\n") if line.strip()):
        return {}
    return facts if isinstance(facts, dict) else None


def markdown_sections(source: str, name: str, *, keep_code: bool) -> Iterator[Section]:
    """Reads the sections of a Markdown page; list items and rows of a table are paragraphs.

    HTML blocks are left out, and code blocks too unless ``keep_code``.
    """
    from markdown_it import MarkdownIt

    page, text = split_front_matter(source)
    sections, heading = Headed(page), False
    cells: list[str] | None = None
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "heading_open":
            heading = True
        elif token.type == "tr_open":
            cells = []
        elif token.type == "tr_close" and cells is not None:
            sections.paragraph(", ".join(filter(None, cells)))
            cells = None
        elif token.type in ("fence", "code_block") and keep_code:
            sections.paragraph(token.content)
        elif token.type == "inline":
            parts = (
                " " if part.type in ("softbreak", "hardbreak") else part.content
                for part in token.children or ()
                if part.type in ("text", "code_inline", "softbreak", "hardbreak")
            )
            content = " ".join("".join(parts).split())
            if heading:
                sections.heading(content)
                heading = False
            elif cells is not None:
                cells.append(content)
            else:
                sections.paragraph(content)
    yield from sections.sections(name)


def rst_sections(source: str, name: str, *, keep_code: bool = False) -> Iterator[Section]:
    """Reads the sections of a page in reStructuredText.

    Directives, comments and link targets are left out, and literal blocks too unless ``keep_code``.
    """
    page, text = split_front_matter(source)
    sections = Headed(page)
    literal = False
    for block in blocks(text.split("\n")):
        indented = block[0][:1].isspace()
        if indented and literal:
            if keep_code:
                sections.paragraph("\n".join(block))
            continue
        lines = [line for line in block if not _UNDERLINE.fullmatch(line)]
        if len(lines) < len(block) and lines and not indented:
            sections.heading(_plain(lines[0]))
            lines = lines[1:]
        literal = bool(lines) and (lines[-1].rstrip().endswith("::") or lines[0].startswith(".. "))
        if lines and not lines[0].lstrip().startswith(".."):
            for item in _items(lines):
                sections.paragraph(_plain(item))
    yield from sections.sections(name)


def _items(lines: Sequence[str]) -> list[str]:
    """Items of a list in a block, each with its lines joined; or the block as one."""
    items: list[str] = []
    for line in lines:
        match = re.match(r"\s*(?:[-*+•]|\d+\.|#\.|:[\w -]+:)\s+(.*)", line)
        if match or not items:
            items.append(match[1] if match else line.strip())
        else:
            items[-1] += f" {line.strip()}"
    return items


def _plain(text: str) -> str:
    text = _ROLE.sub(lambda match: match[1] or match[2] or "", text.replace("``", "`"))
    text = re.sub(r"\*{1,2}(\S(?:.*?\S)?)\*{1,2}", r"\1", text)
    return re.sub(r"::$", ":", text.replace("|", "")).strip()
