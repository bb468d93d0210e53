"""A folder of files in prose: what stands under each heading of a Markdown file, and each text file, is a document."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from opencse.errors import UserError
from opencse.text.lines import MARKDOWN, read_lines

KINDS = (".txt", *MARKDOWN)
_WIDEST = 200
"""Characters: files with longer lines are not broken into lines of a width."""
_FRONT_MATTER = re.compile(r"\A---\n.*?\n(?:---|\.\.\.)\n", flags=re.DOTALL)


@dataclass(frozen=True)
class Section:
    """What is told in one place.

    Attributes:
        place: the file within the folder, and the heading as in a link: ``guide/valves.md#closing-a-valve``.
        title: of the page and of the section; empty where there is none.
        paragraphs: at least one, none empty.
    """

    place: str
    title: str
    paragraphs: tuple[str, ...]


def prose_files(folder: Path) -> list[Path]:
    """The files of `KINDS` in a folder and the folders in it, by name; hidden and empty ones are left out."""
    found = (path for path in folder.rglob("*") if path.suffix.lower() in KINDS)
    shown = (path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts))
    return sorted(path for path in shown if path.is_file() and path.stat().st_size)


def read_prose(folder: Path) -> list[Section]:
    """The sections of all files; those without a text are left out.

    Code blocks, HTML and what stands before the text about it (front matter) are no prose. Lines broken at a width
    are joined.

    Raises:
        UserError: for a folder without such files or any text in them, or a file that is not UTF-8 text, naming it and
            the line.
    """
    files = prose_files(folder)
    if not files:
        raise UserError(f"{folder}: holds neither a corpus.jsonl nor any {', '.join(KINDS)} file with something in it")
    found = [section for path in files for section in _sections(path, folder)]
    if not found:
        raise UserError(
            f"{folder}: no text in its {len(files):,} file(s); headings, code and HTML blocks are not counted as text"
        )
    return found


def _sections(path: Path, folder: Path) -> Iterator[Section]:
    """Those of one file."""
    lines = [line for _, line in read_lines(path)]
    sections = _of_markdown(lines) if path.suffix.lower() in MARKDOWN else [("", "", _of_lines(lines))]
    seen: Counter[str] = Counter()
    for heading, title, paragraphs in sections:
        anchor = "-".join(re.findall(r"[\w-]+", heading.lower()))
        place = path.relative_to(folder).as_posix() + (f"#{anchor}" if anchor else "")
        seen[place] += 1
        if paragraphs:
            yield Section(f"{place}-{seen[place] - 1}" if seen[place] > 1 else place, title, tuple(paragraphs))


def _of_markdown(lines: Sequence[str]) -> list[tuple[str, str, list[str]]]:
    """Heading, title and paragraphs of each section; list items, and the rows of a table, are paragraphs."""
    from markdown_it import MarkdownIt

    source = _FRONT_MATTER.sub("", "\n".join(lines) + "\n")
    page, heading = "", False
    found: list[tuple[str, str, list[str]]] = [("", "", [])]
    cells: list[str] | None = None
    for token in MarkdownIt("commonmark").enable("table").parse(source):
        if token.type == "heading_open":
            heading = True
        elif token.type == "tr_open":
            cells = []
        elif token.type == "tr_close" and cells is not None:
            found[-1][-1].append(", ".join(filter(None, cells)))
            cells = None
        elif token.type == "inline":
            parts = (
                " " if part.type in ("softbreak", "hardbreak") else part.content
                for part in token.children or ()
                if part.type in ("text", "code_inline", "softbreak", "hardbreak")
            )
            text = " ".join("".join(parts).split())
            if heading:
                page = page or text
                found.append((text, text if text == page else f"{page}: {text}", []))
                heading = False
            elif cells is not None:
                cells.append(text)
            elif text:
                found[-1][-1].append(text)
    return found


def _of_lines(lines: Sequence[str]) -> list[str]:
    """Paragraphs: lines, joined where the next one's first word did not fit into the width of the file."""
    width = max(map(len, lines), default=0)
    found: list[str] = []
    room: int | None = None  # what the line before left, where it was broken for want of it
    for line in lines:
        text = " ".join(line.split())
        if not text:
            room = None
            continue
        if room is not None and width <= _WIDEST and len(text.split()[0]) >= room:
            found[-1] += f" {text}"
        else:
            found.append(text)
        room = width - len(line.rstrip())
    return found
