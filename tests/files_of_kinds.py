"""The same documents in a file of every kind, made of small literals."""

from __future__ import annotations

import html
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

TITLED = (
    ("Kettles of Zürich", ("The kettle boils the water; it whistles, too.", "Nobody hears the old kettle at night.")),
    ("How bridges stand", ("A bridge carries the road over the river.", "Its arches are made of grey stone.")),
    ("On growing beans", ("Beans climb up along the poles in summer.", "They are picked before the first frost.")),
)
"""Titles with their sentences."""
TITLES = tuple(title for title, _ in TITLED)
TEXTS = tuple(" ".join(sentences) for _, sentences in TITLED)
SENTENCES = tuple(sentence for _, sentences in TITLED for sentence in sentences)


@dataclass(frozen=True)
class Made:
    """A file, and how it is read.

    Attributes:
        name: of the file.
        content: its bytes.
        fields: value of ``--fields``; empty where none is needed.
        titled: whether the kind has titles.
        separate: whether its documents stay apart; else they are one.
    """

    name: str
    content: bytes
    fields: str = ""
    titled: bool = True
    separate: bool = True


def table(separator: str, header: tuple[str, ...] = ("title", "text"), begin: str = "") -> str:
    """A table in which every text is in double quotes, as spreadsheets write it; with tabs none is."""
    quote = "" if separator == "\t" else '"'
    rows = [header, *(TITLED_TEXTS)]
    return begin + "".join(separator.join(f"{quote}{cell}{quote}" for cell in row) + "\r\n" for row in rows)


TITLED_TEXTS = tuple(zip(TITLES, TEXTS, strict=True))
_OBJECTS = [{"_id": str(number), "title": title, "text": text} for number, (title, text) in enumerate(TITLED_TEXTS)]
_NESTED = [{"meta": {"title": title}, "body": {"text": text}} for title, text in TITLED_TEXTS]
_HTML_CELLS = [
    {"title": title, "text": f"<p>{html.escape(one)}</p><pre><code>x = 1\n</code></pre><p>{html.escape(two)}</p>"}
    for title, (one, two) in TITLED
]


def _page(title: str, sentences: tuple[str, ...]) -> str:
    paragraphs = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in sentences)
    return f"<h1>{html.escape(title)}</h1><script>var x;</script>{paragraphs}<pre>x = 1</pre>"


def pdf(pages: list[list[str]]) -> bytes:
    """A PDF with these lines on its pages, in a font of Latin letters."""
    parts: list[bytes] = []
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    parts.append(b"<< /Type /Catalog /Pages 2 0 R >>")
    parts.append(f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode())
    parts.append(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
    for number, lines in enumerate(pages):
        shown = " T* ".join(
            "(" + line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)") + ") Tj" for line in lines
        )
        stream = f"BT /F1 12 Tf 14 TL 50 750 Td {shown} ET".encode("cp1252")
        parts.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {5 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        parts.append(f"<< /Length {len(stream)} >>\nstream\n".encode() + stream + b"\nendstream")
    out, offsets = b"%PDF-1.4\n", []
    for number, part in enumerate(parts, start=1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n".encode() + part + b"\nendobj\n"
    table_at = len(out)
    out += f"xref\n0 {len(parts) + 1}\n0000000000 65535 f \n".encode()
    out += b"".join(f"{offset:010d} 00000 n \n".encode() for offset in offsets)
    return out + f"trailer\n<< /Size {len(parts) + 1} /Root 1 0 R >>\nstartxref\n{table_at}\n%%EOF\n".encode()


def zipped(parts: Mapping[str, str | bytes]) -> bytes:
    """A zip archive of these parts."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return target.getvalue()


_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def docx(paragraphs: list[tuple[str, str]], before: str = "") -> bytes:
    """A Word document: (style, text) each."""
    body = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{escape(text)}</w:t></w:r></w:p>'
        for style, text in paragraphs
    )
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    types = "http://schemas.openxmlformats.org/package/2006/content-types"
    package = "http://schemas.openxmlformats.org/package/2006/relationships"
    word = "application/vnd.openxmlformats-officedocument.wordprocessingml"
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="{one}"><w:name w:val="{name}"/></w:style>'
        for one, name in (("Heading1", "heading 1"), ("Normal", "Normal"), ("Title", "Title"))
    )
    return zipped(
        {
            "[Content_Types].xml": f'<?xml version="1.0"?><Types xmlns="{types}"><Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Override PartName="/word/document.xml" ContentType="{word}.document.main+xml"/>'
            f'<Override PartName="/word/styles.xml" ContentType="{word}.styles+xml"/></Types>',
            "_rels/.rels": f'<?xml version="1.0"?><Relationships xmlns="{package}"><Relationship Id="r1" '
            f'Type="{office}/officeDocument" Target="word/document.xml"/></Relationships>',
            "word/_rels/document.xml.rels": f'<?xml version="1.0"?><Relationships xmlns="{package}"><Relationship '
            f'Id="r1" Type="{office}/styles" Target="styles.xml"/></Relationships>',
            "word/styles.xml": f'<?xml version="1.0"?><w:styles xmlns:w="{_W}">{styles}</w:styles>',
            "word/document.xml": f'<?xml version="1.0"?>{before}<w:document xmlns:w="{_W}"><w:body>{body}</w:body>'
            "</w:document>",
        }
    )


def epub() -> bytes:
    """An e-book with a chapter for each document."""
    items = "".join(f'<item id="c{number}" href="c{number}.xhtml"/>' for number in range(len(TITLED)))
    spine = "".join(f'<itemref idref="c{number}"/>' for number in range(len(TITLED)))
    parts: dict[str, str | bytes] = {
        "META-INF/container.xml": '<container><rootfiles><rootfile full-path="OEBPS/b.opf"/></rootfiles></container>',
        "OEBPS/b.opf": f"<package><manifest>{items}</manifest><spine>{spine}</spine></package>",
    }
    for number, (title, sentences) in enumerate(TITLED):
        parts[f"OEBPS/c{number}.xhtml"] = f"<html><head><title>{title}</title></head><body>{_page(title, sentences)}"
    return zipped(parts)


def _mbox() -> str:
    messages = []
    for number, (title, sentences) in enumerate(TITLED):
        body = "\n\n".join(sentences)
        messages.append(
            f"From a@example.org Mon Jan  1 00:00:0{number} 2024\nFrom: A <a@example.org>\nSubject: {title}\n"
            f"Message-ID: <{number}@example.org>\nContent-Type: text/plain; charset=utf-8\n"
            f"Content-Transfer-Encoding: 8bit\n\n{body}\n\n"
            "On Monday, B wrote:\n> an older line\n>> the oldest\n\n-- \nA. Person\n\n"
        )
    return "".join(messages)


def _srt() -> str:
    cues = []
    for number, sentence in enumerate(SENTENCES):
        words = sentence.split()
        half = len(words) // 2
        start = 10 * (number // 2) + 2 * (number % 2)
        cues.append(
            f"{number + 1}\r\n00:00:{start:02d},000 --> 00:00:{start + 1:02d},500\r\n"
            f"<i>{' '.join(words[:half])}</i>\r\n{' '.join(words[half:])}\r\n\r\n"
        )
    return "".join(cues)


def _vtt() -> bytes:
    return ("WEBVTT\n\nNOTE x\n\n" + _srt().replace(",000", ".000").replace(",500", ".500")).encode()


_WIKI = "".join(
    f"<page><title>{escape(title)}</title><ns>0</ns><id>{number}</id><revision><text>"
    + escape(
        f"{{{{Infobox|a=1}}}}\n'''{one[:-1]}'''.<ref>A book</ref>\n\n[[File:a.jpg|thumb|a picture]][[Two|{two}]]\n"
    )
    + "</text></revision></page>"
    for number, (title, (one, two)) in enumerate(TITLED)
)
FILES: dict[str, Made] = {
    "comma": Made("a.csv", table(",").encode()),
    "semicolon": Made("a.csv", table(";").encode("utf-8-sig")),
    "tab called csv": Made("a.csv", table("\t").encode()),
    "comma called tsv": Made("a.tsv", table(",").encode()),
    "bar": Made("a.csv", table("|").encode()),
    "sep line": Made("a.csv", table(";", begin="sep=;\r\n").encode()),
    "cp1252": Made("a.csv", table(";").encode("cp1252")),
    "utf-16": Made("a.tsv", table("\t").encode("utf-16")),
    "utf-16 without mark": Made("a.csv", table(",").encode("utf-16-le")),
    "other header": Made("a.csv", table(";", ("Betreff", "Inhalt")).encode(), fields="Betreff,Inhalt"),
    "upper case header": Made("a.csv", table(";", ("Title", "TEXT")).encode()),
    "json lines": Made("a.jsonl", "".join(json.dumps(one) + "\n" for one in _OBJECTS).encode()),
    "json lines called json": Made("a.json", "".join(json.dumps(one) + "\n" for one in _OBJECTS).encode()),
    "json array": Made("a.json", json.dumps(_OBJECTS, indent=2).encode()),
    "json array on a line": Made("a.json", json.dumps(_OBJECTS).encode("utf-16")),
    "json list inside": Made("a.json", json.dumps({"total": 3, "response": {"docs": _OBJECTS}}).encode()),
    "json by key": Made("a.json", json.dumps({str(number): one for number, one in enumerate(_OBJECTS)}).encode()),
    "nested json": Made(
        "a.jsonl", "".join(json.dumps(one) + "\n" for one in _NESTED).encode(), fields="meta.title,body.text"
    ),
    "html in cells": Made("a.jsonl", "".join(json.dumps(one) + "\n" for one in _HTML_CELLS).encode()),
    "stack exchange": Made(
        "Posts.xml",
        (
            '<?xml version="1.0" encoding="utf-8"?>\n<posts>\n'
            + "".join(
                f'<row Id="{number}" PostTypeId="1" Title={quoteattr(one["title"])} Body={quoteattr(one["text"])} />\n'
                for number, one in enumerate(_HTML_CELLS)
            )
            + "</posts>\n"
        ).encode(),
    ),
    "xml": Made(
        "a.xml",
        (
            "<channel>"
            + "".join(
                f"<item><head><name>{escape(title)}</name></head><description>{escape(text)}</description></item>"
                for title, text in TITLED_TEXTS
            )
            + "</channel>"
        ).encode("utf-16"),
        fields="head.name,description",
    ),
    "wikipedia": Made("wiki.xml", f"<?xml version='1.0'?><mediawiki>\n{_WIKI}</mediawiki>".encode()),
    "html": Made(
        "a.html",
        (
            "<!DOCTYPE html><html><head><meta charset=iso-8859-1><style>p {}</style></head><body><nav>Home</nav>"
            + "".join(f"<title>{TITLES[0]}</title>" if not number else "" for number in range(1))
            + "".join(_page(*one) for one in TITLED)
            + "<footer>imprint</footer></body></html>"
        ).encode("cp1252"),
    ),
    "markdown": Made(
        "a.md",
        (
            f"---\ntitle: {TITLES[0]}\n---\n\n"
            + "".join(f"# {title}\n\n{' '.join(sentences)}\n\n```\nx = 1\n```\n\n" for title, sentences in TITLED)
        ).encode(),
    ),
    "rst": Made(
        "a.rst",
        "".join(
            f"{title}\n{'=' * 20}\n\n{' '.join(sentences)}\n\n.. code-block:: python\n\n   x = 1\n\n"
            for title, sentences in TITLED
        ).encode(),
    ),
    "mailbox": Made("a.mbox", _mbox().encode()),
    "subtitles": Made("a.srt", _srt().encode("utf-8-sig"), titled=False, separate=False),
    "vtt": Made("a.vtt", _vtt(), titled=False, separate=False),
    "pdf": Made("a.pdf", pdf([list(sentences) for _, sentences in TITLED]), titled=False, separate=False),
    "docx": Made(
        "a.docx",
        docx(
            [one for title, sentences in TITLED for one in (("Heading1", title), *(("Normal", s) for s in sentences))]
        ),
    ),
    "epub": Made("a.epub", epub()),
}
"""Every kind by its name in tests."""
