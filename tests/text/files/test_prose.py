"""Folders of text and Markdown files."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pypdf
import pytest

from files_of_kinds import epub, pdf, zipped
from opencse.errors import UserError
from opencse.search.rows import open_rows
from opencse.text.documents import (
    Collection,
)
from opencse.text.files.dumps import mail_sections, subtitle_sections
from opencse.text.files.markup import html_sections, text_of_html
from opencse.text.files.pages import docx_sections, epub_sections, page_sections, pdf_sections
from opencse.text.files.prose import Section, rst_sections
from opencse.text.folders import ReadingNotes
from opencse.text.given import DocumentTexts, open_texts

PAGE = """---
title: The manual
---

Before any heading.

# Kettles

A kettle *boils* water. See
[the manual](manual.md) for `on`.

```sh
rm -rf kettle
```

## Descaling (at home)

- Use vinegar.
- Rinse twice,
  then dry.

<div>no prose</div>

| part | price |
|------|-------|
| lid  | 4     |

## Empty

## Kettles

Again.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pages = tmp_path / "pages"
    (pages / "deep").mkdir(parents=True)
    (pages / ".hidden").mkdir()
    (pages / "kettle.md").write_text(PAGE, encoding="utf-8")
    (pages / "deep" / "note.txt").write_text(
        "The first line is broken here because\nthe width is no more. Then\nit ends.\n\n"
        "Another paragraph.\nA list item\nAnd one\n"
    )
    (pages / "empty.txt").write_text("")
    (pages / ".hidden" / "secret.md").write_text("Not read.")
    (pages / "table.csv").write_text("not,read\n")
    return pages


def test_sections_of_pages_and_paragraphs_of_texts(folder: Path) -> None:
    notes = ReadingNotes()
    read = Collection(str(folder)).titled_texts(notes)
    assert [Section(one.name, one.title, one.paragraphs) for one in read] == [
        Section(
            "deep/note.txt",
            "",
            (
                "The first line is broken here because the width is no more. Then",
                "it ends.",
                "Another paragraph.",
                "A list item",
                "And one",
            ),
        ),
        Section("kettle.md", "The manual", ("Before any heading.",)),
        Section("kettle.md#kettles", "The manual: Kettles", ("A kettle boils water. See the manual for on.",)),
        Section(
            "kettle.md#descaling-at-home",
            "The manual: Descaling (at home)",
            ("Use vinegar.", "Rinse twice, then dry.", "part, price", "lid, 4"),
        ),
        Section("kettle.md#kettles-1", "The manual: Kettles", ("Again.",)),
    ]
    assert [line.split("(")[0].strip() for line in notes.lines()] == [
        "read as    a text file as one document, UTF-8",
        "read as    Markdown, UTF-8",
        "left out   1 empty file",
        "left out   1 file without such fields",
    ]


def test_a_folder_is_running_text(folder: Path) -> None:
    texts = open_texts(folder)
    assert isinstance(texts, DocumentTexts)
    read = texts.read()
    assert read.documents is not None
    assert read.documents[:6] == [0, 0, 0, 0, 0, 0]
    assert read.documents[-1] == 4
    assert list(texts.rows_with_documents()) == list(zip(read.documents, read.rows, strict=True))
    before = texts.fingerprint()
    assert open_texts(folder).fingerprint() == before
    (folder / "deep" / "note.txt").write_text("Another text.\n")
    assert open_texts(folder).fingerprint() != before


@pytest.mark.parametrize(
    ("page", "title", "paragraphs"),
    [
        ("---\n\nText after a rule.\n\n---\n\nMore.\n", "", ("Text after a rule.", "More.")),
        ("---\ntitle: A: B\n---\nText.\n", "A: B", ("Text.",)),
        ('+++\ntitle = "A page"\n+++\nText.\n', "A page", ("Text.",)),
        ('---\ntitle: !!python/object/apply:os.system ["x"]\n---\nText.\n', "", ("Text.",)),
        ("# Alone\n", "Alone", ()),
        ("# Page\n\n## Empty\n\n## Full\n\nText.\n", "Page: Full", ("Text.",)),
    ],
)
def test_front_matter_is_not_text_and_a_title_alone_is_kept(
    tmp_path: Path, page: str, title: str, paragraphs: tuple[str, ...]
) -> None:
    path = tmp_path / "a.md"
    path.write_text(page, encoding="utf-8")
    notes = ReadingNotes()
    texts = list(Collection(str(path)).titled_texts(notes))
    assert [paragraph for text in texts for paragraph in text.paragraphs] == list(paragraphs)
    assert texts[0].title == title
    assert notes.only_titles == (0 if paragraphs else 1)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("<p>One &amp; two.</p><p>Three.</p>", "One & two.\nThree."),
        ("<table><tr><td>a</td><td>b</td></tr><tr><th>c</th><td>d</td></tr></table>", "a, b\nc, d"),
        ("<script>var a = '<p>';</script>Text<style>p {}</style>", "Text"),
        ("<pre><code>x = 1\ny = 2</code></pre>Text", "Text"),
        ("<h2>Head: one<a href='#h'>&para;</a></h2><p>Text</p>", "Head: one\nText"),
        ("a < b and c > d", "a < b and c > d"),
        ("<p>Open <b>tags <i>everywhere", "Open tags everywhere"),
        ("<header><p>A site</p><nav>Home</nav><h1>Kettles</h1></header><p>Text</p>", "Kettles\nText"),
        ("<div><header>A site</header></div><article><header><h1>T</h1><p>Lead</p></header>Text", "T\nLead\nText"),
        ("Text<footer>Terms</footer>", "Text"),
        ("One<div class=a role='contentinfo'><div>Terms</div> and <p>more</div>Two", "One\nTwo"),
        ("One<!-- two <b>three", "One"),
        ("<!DOCTYPE html [<!ENTITY a 'b'>]><?php x ?><p>One<![CDATA[ <b>", "One"),
        ("<a title='x > y' href=\"<b>\">One</a> <b and 2", "One <b and 2"),
        ("", ""),
    ],
)
def test_pieces(source: str, text: str) -> None:
    assert text_of_html(source) == text


def test_what_is_never_closed_takes_time_in_proportion_to_its_length() -> None:
    begun = time.process_time()
    pieces = (
        "<!-- <b>",
        "<script>a<b ",
        "<!DOCTYPE ",
        "<![CDATA[ <b> ",
        "<?x ",
        "<a ",
        '<a x=">"',
        "</",
        "<main>",
        "<h1>",
    )
    for piece in (*pieces, "<title>", "<div>", "<select>", "<td> ", "</a "):
        list(html_sections(piece * (100_000 // len(piece)), "a"))
    assert time.process_time() - begun < 10  # squares of these lengths take minutes


def titles(source: str) -> list[str]:
    return [one.title for one in html_sections(source, "a")]


def test_titles_and_sections_of_a_page() -> None:
    body = "<body><nav>Home</nav><h1>Kettles</h1><p>One.</p><h2>Use</h2><p>Two.</p></body>"
    assert titles(f"<title>Kettles - A site</title>{body}") == ["Kettles", "Kettles: Use"]
    assert titles(f"<title>A shop</title>{body}") == ["A shop: Kettles", "A shop: Use"]
    assert titles(body) == ["Kettles", "Kettles: Use"]
    main = "<p>Around.</p><main><h1>In</h1><p>Main.</p></main><p>After.</p>"
    assert [one.paragraphs for one in html_sections(main, "a")] == [("Main.",)]


def test_restructured_text() -> None:
    source = (
        "=====\nGuide\n=====\n\n.. note:: not\n   this\n\nUse :ref:`the valve <valve>` and ``on``\nto *start* it.\n\n"
        "Parts\n-----\n\n- One\n  more\n- Two\n\nAs follows::\n\n    code\n"
    )
    assert [(one.title, one.paragraphs) for one in rst_sections(source, "a")] == [
        ("Guide", ("Use the valve and on to start it.",)),
        ("Guide: Parts", ("One more", "Two", "As follows:")),
    ]


HEAD = "From: A <a@b.c>\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\nMessage-ID: <1@b.c>\n"


def message(tmp_path: Path, content: str | bytes) -> tuple[str, str, tuple[str, ...]]:
    path = tmp_path / "a.eml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    (section,) = mail_sections(path, "a.eml")
    return section.name, section.title, section.paragraphs


@pytest.mark.parametrize(
    ("body", "paragraphs"),
    [
        ("\nOne text.\n\nTwo.\n", ("One text.", "Two.")),
        ("\nYes.\n\nOn Monday, B <b@b.c> wrote:\n> a question\n>> older\n\n-- \nA. Person\nA street\n", ("Yes.",)),
        ("\nJa.\n\nAm 3. Mai schrieb B:\n> Frage\n", ("Ja.",)),
        ("\nYes.\n\n-----Original Message-----\nFrom: B\nold text\n", ("Yes.",)),
        ("Content-Type: text/html; charset=utf-8\n\n<p>One <b>text</b>.</p><style>p{}</style>\n", ("One text.",)),
        ("Content-Transfer-Encoding: base64\nContent-Type: text/plain; charset=utf-8\n\nR3LDvMOfZQ==\n", ("Grüße",)),
        (
            'Content-Type: multipart/mixed; boundary="x"\n\n--x\nContent-Type: multipart/alternative; boundary="y"\n\n'
            "--y\nContent-Type: text/plain\n\nThe text.\n--y\nContent-Type: text/html\n\n<p>The text.</p>\n--y--\n"
            "--x\nContent-Disposition: attachment; filename=a.txt\nContent-Type: text/plain\n\nNot this.\n--x--\n",
            ("The text.",),
        ),
    ],
)
def test_what_the_sender_wrote(tmp_path: Path, body: str, paragraphs: tuple[str, ...]) -> None:
    assert message(tmp_path, HEAD + body) == ("1@b.c", "Grüße", paragraphs)


def test_copies_of_a_message_are_left_out_and_counted(tmp_path: Path) -> None:
    """A mailbox and its copies, or a message in two folders, hold one message several times."""
    begin, head = "From a@b.c Mon Jan  1 00:00:00 2024\n", "Message-ID: <1@b.c>\nSubject: Tea\n\n"
    (tmp_path / "a.mbox").write_text(f"{begin}{head}At four.\n\n{begin}{head}At five.\n\n{begin}{head}At four.\n")
    (tmp_path / "b.eml").write_text(f"From: a@b.c\n{head}At four.\n")
    notes = ReadingNotes()
    texts = [(one.name, one.text) for one in Collection(str(tmp_path)).titled_texts(notes)]
    assert texts == [("1@b.c", "At four."), ("1@b.c-1", "At five.")]
    assert notes.lines()[-1] == "left out   2 messages read before (the same Message-ID and text)"
    assert [document.name for document in Collection(str(tmp_path)).documents()] == ["1@b.c", "1@b.c-1"]
    assert open_rows(tmp_path).count == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04 and no more", "damaged, or not of this kind"),
        (b"\xd0\xcf\x11\xe0" + bytes(600), "is encrypted, or an old Office file"),
        (zipped({"word/other.xml": "<a/>"}), "damaged, or not of this kind"),
    ],
)
def test_faults_of_word_documents_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
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


def paragraphs(*pages: str) -> tuple[str, ...]:
    return tuple(text for one in page_sections(pages, "a") for text in one.paragraphs)


def test_broken_words_keep_a_hyphen_that_is_theirs() -> None:
    page = (
        "A well-known thing is a well-\nknown thing, and a ket-\ntle is none of them at all, says\n"
        "the North-\nSouth line. It costs 3-\n4 coins, and twenty\u00ad\nfive more."
    )
    (text,) = paragraphs(page)
    assert "is a well-known thing, and a kettle is none" in text
    assert "North- South" in text
    assert "3- 4" in text
    assert "twentyfive" in text


def spoken(path: Path, content: str) -> tuple[str, ...]:
    path.write_text(content, encoding="utf-8")
    return tuple(text for one in subtitle_sections(path, "a") for text in one.paragraphs)


def test_numbers_times_and_tags_go(tmp_path: Path) -> None:
    path = tmp_path / "a.srt"
    content = (
        "1\n00:00:01,000 --> 00:00:02,000\n<i>The first</i>\n{\\an8}line goes on,\n\n"
        "2\n00:00:02,100 --> 00:00:03,000 X1:40 X2:600\n- until it ends.\n- 42 times.\n\n"
        "3\n00:00:09,000 --> 00:00:10,000\n[music]\n♪ la la ♪\nA pause &amp; more.\n"
    )
    assert spoken(path, content) == ("The first line goes on, until it ends. 42 times.", "A pause & more.")
    assert spoken(path, content.replace("\n", "\r\n")) == spoken(path, content)
