"""Reads Markdown and reStructuredText: the text under each heading is a section."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from opencse.text.files.paragraphs import Headed, Section, blocks

_FRONT_MATTER = re.compile(
    r"\A(?:---[ \t]*\n(?P<yaml>.*?\n)??(?:---|\.\.\.)|\+\+\+[ \t]*\n(?P<toml>.*?\n)??\+\+\+)[ \t]*(?:\n|\Z)",
    flags=re.DOTALL,
)
_TITLE_LINE = re.compile(r"^title[ \t]*[:=][ \t]*([^\s*&!|>\[{].*)$", flags=re.MULTILINE | re.IGNORECASE)
_KEY_LINE = re.compile(r"\s*(?:#[^\n]*\s+)*[\w\"'][\w\"'. -]*[:=]")
_UNDERLINE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}\s*")
_ROLE = re.compile(r":[\w:-]+:`([^`<]*?)\s*(?:<[^`>]*>)?`|`([^`<]*?)\s*(?:<[^`>]*>)?`_{0,2}")


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
        import tomllib

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


def markdown_sections(source: str, name: str, *, keep_code: bool = False) -> Iterator[Section]:
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
