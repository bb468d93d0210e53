"""Reads Word documents (with `mammoth`) and e-books: both are converted to HTML, and that to sections."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections.abc import Iterator
from urllib.parse import unquote

from opencse.environment import require_packages
from opencse.errors import UserError, reason
from opencse.text.files.lines import MAX_GROWTH, UNPACKED_FREELY, File, read_bytes
from opencse.text.files.markup import html_sections
from opencse.text.files.paragraphs import Section

MAX_ARCHIVE = 500_000_000
"""Largest number of bytes of a file."""
MAX_PART = 100_000_000
"""Largest number of bytes of an unpacked part that holds text."""
_TEXT_PARTS = (".xml", ".rels", ".html", ".xhtml", ".htm", ".opf", ".ncx")
_ENTITY = re.compile(rb"<!(?:ENTITY|DOCTYPE[^>]*\[)", re.IGNORECASE)


def docx_sections(file: File, name: str, *, keep_code: bool = False) -> Iterator[Section]:
    """Reads the sections of a Word document, by its headings; its title is the paragraph with the style Title.

    Raises:
        UserError: for a damaged or encrypted file, or one that unpacks to far more than text does.
    """
    require_packages(f"{file}: a Word document", "files", "mammoth")
    import mammoth

    content = _checked(file)
    styles = "p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => p:fresh"
    try:
        html = mammoth.convert_to_html(
            io.BytesIO(content), style_map=styles, convert_image=mammoth.images.img_element(lambda image: {"src": ""})
        ).value
    except Exception as error:  # of XML, zip and its own, which have no common kind
        raise _damaged(file, error) from None
    yield from html_sections(html, name, keep_code=keep_code)


def epub_sections(file: File, name: str, *, keep_code: bool = False) -> Iterator[Section]:
    """Reads the sections of an e-book, chapter after chapter in reading order.

    Raises:
        UserError: see `docx_sections`.
    """
    content = _checked(file)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for chapter in _chapters(archive):
                source = archive.read(chapter).decode("utf-8-sig", errors="replace")
                sections = html_sections(source, f"{name}/{posixpath.basename(chapter)}", keep_code=keep_code)
                yield from (section for section in sections if section.paragraphs)  # a cover has the book's title alone
    except (zipfile.BadZipFile, KeyError, ValueError, OSError, NotImplementedError, RuntimeError, EOFError) as error:
        raise _damaged(file, error) from None


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


def _checked(file: File) -> bytes:
    """The bytes of an archive whose parts unpack to no more than text does, and declare no XML entities."""
    content = read_bytes(file, MAX_ARCHIVE)
    most = max(UNPACKED_FREELY, MAX_GROWTH * len(content))
    if content.startswith(b"\xd0\xcf\x11\xe0"):
        raise UserError(f"{file}: is encrypted, or an old Office file; save it as .docx without a password")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            total = 0
            for part in archive.infolist():
                if part.flag_bits & 1:
                    raise UserError(f"{file}: is encrypted; save it without a password")
                if not part.filename.lower().endswith(_TEXT_PARTS):
                    continue
                with archive.open(part) as stream:
                    unpacked = stream.read(min(MAX_PART, most - total) + 1)
                total += len(unpacked)
                if len(unpacked) > MAX_PART or total > most:
                    raise UserError(
                        f"{file}: {part.filename[:80]!r} in it unpacks to more than {MAX_GROWTH} times the file, which "
                        "text hardly does; save it again"
                    )
                if _ENTITY.search(unpacked):
                    raise UserError(f"{file}: {part.filename[:80]!r} in it declares XML entities, which is refused")
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError, RuntimeError) as error:
        raise _damaged(file, error) from None
    except Exception as error:
        if isinstance(error, UserError):
            raise
        raise _damaged(file, error) from None  # zlib's and lzma's own
    return content


def _damaged(file: File, error: Exception) -> UserError:
    return UserError(f"{file}: damaged, or not of this kind ({reason(error)}); save it again")
