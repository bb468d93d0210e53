"""PDF files."""

from __future__ import annotations

import io
from pathlib import Path

import pypdf
import pytest

from files_of_kinds import pdf
from opencse.errors import UserError
from opencse.text.files.pdf import pdf_sections

PAGES = [
    ["ANNUAL REPORT", f"The first line of page {n} is bro-", "ken and goes on over lines that are as long.", str(n)]
    for n in range(1, 6)
]


def test_pages_are_joined(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf(PAGES))
    (section,) = pdf_sections(path, "a.pdf")
    text = " ".join(section.paragraphs)
    assert text.count("is broken and goes on") == 5
    assert "ANNUAL" not in text
    assert not any(word.isdecimal() and len(word) > 1 for word in text.split())


def encrypted(content: bytes, password: str) -> bytes:
    writer = pypdf.PdfWriter(clone_from=pypdf.PdfReader(io.BytesIO(content)))
    writer.encrypt(user_password=password, owner_password="o", algorithm="RC4-128")
    target = io.BytesIO()
    writer.write(target)
    return target.getvalue()


def test_faults_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    whole = pdf(PAGES)
    for content, message in (
        (whole[:60], "damaged or not a PDF"),
        (b"%PDF-1.4\n" + bytes(500), "damaged or not a PDF"),
        (pdf([[""], [""]]), r"no text on its 2 page\(s\) \(a scan\?\)"),
        (encrypted(whole, "secret"), "is encrypted; save it without a password"),
    ):
        path.write_bytes(content)
        with pytest.raises(UserError, match=message) as refused:
            list(pdf_sections(path, "a.pdf"))
        assert str(refused.value).startswith(str(path))
        assert "\n" not in str(refused.value)
    path.write_bytes(encrypted(whole, ""))  # everybody may open it
    assert len(list(pdf_sections(path, "a.pdf"))) == 1
