"""Word documents and e-books."""

from __future__ import annotations

from pathlib import Path

import pytest

from files_of_kinds import docx, epub, zipped
from opencse.errors import UserError
from opencse.text.files import office
from opencse.text.files.office import docx_sections, epub_sections


def test_headings_and_titles_of_word(tmp_path: Path) -> None:
    path = tmp_path / "a.docx"
    path.write_bytes(
        docx([("Title", "The page"), ("Normal", "Before."), ("Heading1", "A part"), ("Normal", "Within.")])
    )
    assert [(one.title, one.paragraphs) for one in docx_sections(path, "a.docx")] == [
        ("The page", ("Before.",)),
        ("The page: A part", ("Within.",)),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (docx([("Normal", "One.")])[:-40], "damaged, or not of this kind"),
        (b"PK\x03\x04 and no more", "damaged, or not of this kind"),
        (b"\xd0\xcf\x11\xe0" + bytes(600), "is encrypted, or an old Office file"),
        (zipped({"word/other.xml": "<a/>"}), "damaged, or not of this kind"),
        (zipped({"word/document.xml": "<a" + " " * 30_000_000 + "/>"}), "unpacks to more than 100 times the file"),
        (
            docx([("Normal", "&a;")], before='<!DOCTYPE d [<!ENTITY a "ha">]>').replace(b"&amp;a;", b"&a;"),
            "declares XML entities, which is refused",
        ),
    ],
)
def test_faults_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.docx"
    path.write_bytes(content)
    with pytest.raises(UserError) as refused:
        list(docx_sections(path, "a.docx"))
    assert message in str(refused.value)
    assert str(refused.value).startswith(str(path))
    assert "\n" not in str(refused.value)


def test_chapters_of_a_book_in_reading_order(tmp_path: Path) -> None:
    path = tmp_path / "a.epub"
    path.write_bytes(epub())
    assert [one.name.split("#")[0] for one in epub_sections(path, "a.epub")] == [f"a.epub/c{n}.xhtml" for n in range(3)]
    path.write_bytes(zipped({"META-INF/container.xml": "<container/>"}))
    with pytest.raises(UserError, match=r"its container names no book"):
        list(epub_sections(path, "a.epub"))


def test_without_the_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from opencse import environment

    path = tmp_path / "a.docx"
    path.write_bytes(docx([("Normal", "One.")]))
    monkeypatch.setattr(environment, "missing_packages", lambda *modules: list(modules))
    with pytest.raises(UserError, match=r'a\.docx: a Word document needs mammoth; pip install "opencse\[files\]"'):
        list(office.docx_sections(path, "a.docx"))
