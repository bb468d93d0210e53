"""Reads PDF files, Word documents and e-books; joins the lines of printed pages to paragraphs."""

from __future__ import annotations

import io
import logging
import posixpath
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from opencse.environment import require_packages
from opencse.errors import UserError, reason
from opencse.text.files.lines import File, read_bytes
from opencse.text.files.markup import html_sections
from opencse.text.files.prose import Section

_EDGE = 3
"""Largest number of lines at the top and bottom of a page that may be running heads or page numbers."""
_OFTEN = 0.3
"""Smallest share of the pages that a running head is on."""
_NUMBER = re.compile(
    r"\W*(?:(?:page|seite|página|pagina|side|sida|p\.|s\.)\s*)?(?:\d{1,5}|[ivxlc]{1,7})"
    r"(?:\s*(?:/|of|von|de|di|sur|av)\s*\d{1,5})?\W*",
    re.IGNORECASE,
)
_BROKEN = re.compile(r"([^\W\d_]+)[-\u00ad\u2010]$")
_LIGATURES = str.maketrans(
    {"\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl", "\ufb05": "st", "\ufb06": "st"}
)
"""Letters that fonts draw as one character; models do not know words that contain it."""
_LIST = re.compile(r"\s*(?:[-*•▪‣–]|\(?\d{1,3}[.)]|[a-z]\))\s+")


def page_sections(pages: Sequence[str], name: str, title: str = "") -> Iterator[Section]:
    """Reads the text of pages as one document.

    Lines that repeat at the edge of many pages, and page numbers, are left out. A word that is hyphenated at the end of
    a line is joined; its hyphen stays if the document writes the word with it elsewhere. A line that is much shorter
    than the width of the page ends a paragraph, and so does a blank line after the end of a sentence.

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
    """A form of a line that is equal on all pages for a running head: its words, without numbers."""
    return " ".join(re.sub(r"\d+", "#", line).split()).casefold()


def _edge(page: Sequence[str]) -> int:
    """Number of lines at each end of a page that are its edge: at most a quarter of those with text, at least one."""
    return min(_EDGE, max(1, sum(bool(line.strip()) for line in page) // 4))


def _edges(page: Sequence[str]) -> list[int]:
    """The numbers of the lines at the edges of a page, without blank ones."""
    filled = [number for number, line in enumerate(page) if line.strip()]
    return list(dict.fromkeys((*filled[: _edge(page)], *filled[-_edge(page) :])))


def _running_heads(pages: Sequence[Sequence[str]]) -> frozenset[str]:
    if len(pages) < 3:
        return frozenset()
    counts = Counter(key for page in pages for key in {_key(page[number]) for number in _edges(page)})
    return frozenset(key for key, count in counts.items() if count >= max(3, _OFTEN * len(pages)))


def _without_edges(page: Sequence[str], heads: frozenset[str]) -> list[str]:
    """The page without the running heads and page numbers at its ends."""
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


def pdf_sections(file: File, name: str) -> Iterator[Section]:
    """Reads the text of a PDF as one document; see `page_sections`.

    Raises:
        UserError: for a damaged or encrypted file, or pages without any text (scans), naming the page.
    """
    require_packages(f"{file}: a PDF", "files", "pypdf")
    import pypdf

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    content = read_bytes(file)
    pages: list[str] = []
    title = ""
    try:
        reader = pypdf.PdfReader(io.BytesIO(content))
        encrypted = reader.is_encrypted and not reader.decrypt("")
        for page in () if encrypted else reader.pages:
            pages.append(page.extract_text())
        if not encrypted and reader.metadata:
            title = " ".join(str(reader.metadata.title or "").split())
    except Exception as error:  # a broken file ends in any exception there
        at = f", page {len(pages) + 1}" if pages else ""
        raise UserError(f"{file}{at}: damaged or not a PDF ({reason(error)}); save it again") from None
    if encrypted:
        raise UserError(f"{file}: is encrypted; save it without a password")
    if not any(page.strip() for page in pages):
        raise UserError(f"{file}: no text on its {len(pages):,} page(s) (a scan?); recognise its text first (ocrmypdf)")
    words = set(" ".join(pages[:2]).casefold().split())
    if title and not set(title.casefold().split()) <= words:  # often the name of a file or a template
        title = ""
    yield from page_sections(pages, name, title)


def docx_sections(file: File, name: str, *, keep_code: bool = False) -> Iterator[Section]:
    """Reads the sections of a Word document, by its headings; its title is the paragraph with the style Title.

    Raises:
        UserError: for a damaged or encrypted file.
    """
    require_packages(f"{file}: a Word document", "files", "mammoth")
    import mammoth

    content = read_bytes(file)
    if content.startswith(b"\xd0\xcf\x11\xe0"):
        raise UserError(f"{file}: is encrypted, or an old Office file; save it as .docx without a password")
    styles = "p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => p:fresh"
    images = mammoth.images.img_element(lambda image: {"src": ""})
    try:
        html = mammoth.convert_to_html(io.BytesIO(content), style_map=styles, convert_image=images).value
    except Exception as error:  # of XML, zip and its own, which have no common kind
        raise _damaged(file, error) from None
    yield from html_sections(html, name, keep_code=keep_code)


def epub_sections(file: File, name: str, *, keep_code: bool = False) -> Iterator[Section]:
    """Reads the sections of an e-book, chapter after chapter in reading order.

    Raises:
        UserError: for a damaged file.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(read_bytes(file))) as archive:
            chapters = [(one, archive.read(one).decode("utf-8-sig", errors="replace")) for one in _chapters(archive)]
    except (zipfile.BadZipFile, KeyError, ValueError, OSError, NotImplementedError, RuntimeError, EOFError,
            zlib.error) as error:  # fmt: skip
        raise _damaged(file, error) from None
    for chapter, source in chapters:
        sections = html_sections(source, f"{name}/{posixpath.basename(chapter)}", keep_code=keep_code)
        yield from (section for section in sections if section.paragraphs)  # a cover has the book's title alone


def _chapters(archive: zipfile.ZipFile) -> list[str]:
    """The paths of the chapters in the archive, in reading order (the spine)."""
    container = archive.read("META-INF/container.xml").decode("utf-8", errors="replace")
    match = re.search(r'full-path="([^"]+)"', container)
    if match is None:
        raise ValueError("its container names no book")
    package = archive.read(match[1]).decode("utf-8", errors="replace")
    items = {}
    for item in re.findall(r"<(?:opf:)?item\s[^>]*>", package):
        facts = dict(re.findall(r'([\w-]+)="([^"]*)"', item))
        items[facts.get("id", "")] = facts.get("href", "")
    base = posixpath.dirname(match[1])
    spine = re.findall(r'<(?:opf:)?itemref\s[^>]*?idref="([^"]+)"', package)
    return [posixpath.normpath(posixpath.join(base, unquote(items[name]))) for name in spine if name in items]


def _damaged(file: File, error: Exception) -> UserError:
    return UserError(f"{file}: damaged, or not of this kind ({reason(error)}); save it again")
