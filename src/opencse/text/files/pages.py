"""Joins the lines of printed pages: no running heads and page numbers, broken words and ligatures made whole."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from opencse.text.files.paragraphs import Section

_EDGE = 3
"""Lines at the top and bottom of a page that may be running heads or page numbers, at most."""
_OFTEN = 0.3
"""Share of the pages that a running head is on, at least."""
_NUMBER = re.compile(
    r"\W*(?:(?:page|seite|página|pagina|side|sida|p\.|s\.)\s*)?(?:\d{1,5}|[ivxlc]{1,7})"
    r"(?:\s*(?:/|of|von|de|di|sur|av)\s*\d{1,5})?\W*",
    re.IGNORECASE,
)
_BROKEN = re.compile(r"([^\W\d_]+)[-\u00ad\u2010]$")
_LIGATURES = str.maketrans(
    {"\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl", "\ufb05": "st", "\ufb06": "st"}
)
"""Letters that fonts draw as one sign; no model knows words that are spelt with it."""
_LIST = re.compile(r"\s*(?:[-*•▪‣–]|\(?\d{1,3}[.)]|[a-z]\))\s+")


def page_sections(pages: Sequence[str], name: str, title: str = "") -> Iterator[Section]:
    """The text of pages as one document.

    Lines that come back at the edge of many pages, and page numbers, are left out. A word that is broken at the end of
    a line is joined; its hyphen stays where the document writes it so elsewhere. A line that is much shorter than the
    page is wide ends a paragraph, and so does a blank line after the end of a sentence.

    Args:
        pages: their texts.
        name: of the document.
        title: of the document, if known.
    """
    lines = [_trimmed(page.translate(_LIGATURES).split("\n")) for page in pages]
    heads = _running_heads(lines)
    lines = [_without_edges(page, heads) for page in lines]
    known = Counter(re.findall(r"[^\W\d_]+(?:-[^\W\d_]+)*", "\n".join("\n".join(page) for page in lines)))
    paragraphs = tuple(_paragraphs(lines, known))
    if paragraphs:
        yield Section(name, title, paragraphs)


def _trimmed(lines: Sequence[str]) -> list[str]:
    """The lines of a page without blank ones at its ends."""
    texts = [line.rstrip() for line in lines]
    while texts and not texts[0].strip():
        texts.pop(0)
    while texts and not texts[-1].strip():
        texts.pop()
    return texts


def _key(line: str) -> str:
    """What a running head has in common on all pages: its words, without numbers."""
    return " ".join(re.sub(r"\d+", "#", line).split()).casefold()


def _edge(page: Sequence[str]) -> int:
    """How many lines at each end of a page are its edge: at most a quarter of those with text, and one at least."""
    return min(_EDGE, max(1, sum(bool(line.strip()) for line in page) // 4))


def _edges(page: Sequence[str]) -> list[int]:
    """The lines at the edges of a page, by number; blank ones do not count."""
    filled = [number for number, line in enumerate(page) if line.strip()]
    return list(dict.fromkeys((*filled[: _edge(page)], *filled[-_edge(page) :])))


def _running_heads(pages: Sequence[Sequence[str]]) -> frozenset[str]:
    if len(pages) < 3:
        return frozenset()
    counts = Counter(key for page in pages for key in {_key(page[number]) for number in _edges(page)})
    return frozenset(key for key, count in counts.items() if count >= max(3, _OFTEN * len(pages)))


def _without_edges(page: Sequence[str], heads: frozenset[str]) -> list[str]:
    """The page without running heads and numbers: whole lines from its ends inwards."""
    lines = list(page)
    for end in (0, -1):
        for _ in range(_edge(page)):
            while lines and not lines[end].strip():
                lines.pop(end)
            if lines and (_key(lines[end]) in heads or _NUMBER.fullmatch(lines[end])):
                lines.pop(end)
            else:
                break
    return _trimmed(lines)


def _paragraphs(pages: Sequence[Sequence[str]], known: Counter[str]) -> Iterator[str]:
    widths = sorted(len(line) for page in pages for line in page if line.strip())
    width = widths[int(0.9 * (len(widths) - 1))] if widths else 0
    text, short = "", False
    for page in pages:
        gap = False
        for line in page:
            if not line.strip():
                gap = True
                continue
            words = " ".join(line.split())
            broken = _BROKEN.search(text)
            ends = bool(re.search(r"[.!?:;…]['\"”’»)\]]*$", text))
            begins = (
                bool(text)
                and not broken
                and (bool(_LIST.match(line)) or (short and (ends or words[:1].isupper())) or (gap and (ends or short)))
            )
            if begins:
                yield text
                text = words
            elif broken and words[:1].islower():
                text = _joined(text, broken[1], words, known)
            else:
                text = f"{text} {words}".strip()
            short, gap = len(line.rstrip()) < 0.7 * width, False
    if text:
        yield text


def _joined(text: str, first: str, words: str, known: Counter[str]) -> str:
    match = re.match(r"[^\W\d_]+", words)
    second = match[0] if match else ""
    with_hyphen, without = known[f"{first}-{second}"], known[first + second]
    if text.endswith("-") and with_hyphen > without:
        return text + words
    return text[:-1] + words
