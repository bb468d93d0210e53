"""Reads PDF files with `pypdf`."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

from opencse.environment import require_packages
from opencse.errors import UserError, reason
from opencse.text.files.lines import File, read_bytes
from opencse.text.files.pages import page_sections
from opencse.text.files.paragraphs import Section

MAX_PDF = 1_000_000_000
"""Largest number of bytes of a file."""
MAX_PAGE = 10_000_000
"""Largest number of characters on one page."""


def pdf_sections(file: File, name: str) -> Iterator[Section]:
    """Reads the text of a PDF as one document; see `opencse.text.files.pages`.

    Raises:
        UserError: for a damaged or encrypted file, or pages without any text (scans), naming the page.
    """
    require_packages(f"{file}: a PDF", "files", "pypdf")
    import pypdf
    from pypdf.errors import PyPdfError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    content = read_bytes(file, MAX_PDF)
    page_number = 0
    pages: list[str] = []
    try:
        reader = pypdf.PdfReader(io.BytesIO(content))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UserError(f"{file}: is encrypted; save it without a password")
        title = " ".join(str(reader.metadata.title or "" if reader.metadata else "").split())
        for page_number, page in enumerate(reader.pages, start=1):
            text = page.extract_text()
            if len(text) > MAX_PAGE:
                raise UserError(
                    f"{file}, page {page_number}: more than {MAX_PAGE:,} characters on a page; split the page"
                )
            pages.append(text)
    except UserError:
        raise
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, AssertionError,
            NotImplementedError, OverflowError, ArithmeticError, MemoryError, OSError) as error:  # fmt: skip
        at = f", page {page_number}" if page_number else ""
        raise UserError(f"{file}{at}: damaged or not a PDF ({reason(error)}); save it again") from None
    if not any(page.strip() for page in pages):
        raise UserError(f"{file}: no text on its {len(pages):,} page(s) (a scan?); recognise its text first (ocrmypdf)")
    words = set(" ".join(pages[:2]).casefold().split())
    if title and not set(title.casefold().split()) <= words:  # often the name of a file or a template
        title = ""
    yield from page_sections(pages, name, title)
