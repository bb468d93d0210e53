"""Files of every kind are recognised, and give the same documents."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from files_of_kinds import FILES, SENTENCES, TEXTS, TITLED, TITLES, Made, zipped
from opencse.errors import UserError
from opencse.text.documents import Collection, Document
from opencse.text.files.kinds import recognise
from opencse.text.given import open_texts
from opencse.text.reading_notes import ReadingNotes

CASES = Path(__file__).resolve().parents[3].parent / "shared" / "cases"


def written(folder: Path, made: Made) -> Path:
    path = folder / made.name
    path.write_bytes(made.content)
    return path


def collection(path: Path, made: Made) -> Collection:
    return Collection(str(path), tuple(made.fields.split(",")) if made.fields else None)


@pytest.mark.parametrize("kind", FILES)
def test_every_kind_gives_the_same_documents(tmp_path: Path, kind: str) -> None:
    made = FILES[kind]
    path = written(tmp_path, made)
    notes = ReadingNotes()
    documents = list(collection(path, made).documents(notes))
    assert [sentence for one in documents for sentence in one.sentences] == list(SENTENCES)
    if made.separate:
        assert [one.sentences for one in documents] == [sentences for _, sentences in TITLED]
    if made.titled:
        own = [one.title.removeprefix(f"{TITLES[0]}: ") for one in documents]
        assert own == list(TITLES)
    (line,) = notes.lines()
    assert line.startswith("read as    ")
    texts = [" ".join(one.text.split()) for one in collection(path, made).titled_texts()]
    assert " ".join(texts) == " ".join(TEXTS)


@pytest.mark.parametrize("kind", FILES)
def test_every_kind_is_running_text(tmp_path: Path, kind: str) -> None:
    made = FILES[kind]
    fields = made.fields.split(",") if made.fields else None
    if fields is None and recognise(written(tmp_path, made)).name in ("table", "jsonl", "json", "xml"):
        fields = ["TEXT" if kind == "upper case header" else "text"]
    source = open_texts(written(tmp_path, made), fields=fields)
    assert [row[0] for row in source.read().rows] == list(SENTENCES)
    assert source.fingerprint() == open_texts(written(tmp_path, made), fields=fields).fingerprint()


@pytest.mark.parametrize("kind", FILES)
def test_a_truncated_file_gives_documents_or_one_line(tmp_path: Path, kind: str) -> None:
    made = FILES[kind]
    for share in (0.95, 0.5, 0.1):
        path = tmp_path / made.name
        path.write_bytes(made.content[: int(share * len(made.content))])
        read: list[Document] = []
        refusal = f"{path} is damaged"
        try:
            read = list(collection(path, made).documents())
        except UserError as error:
            refusal = str(error)
        assert len(read) <= len(TITLED)
        assert str(path) in refusal
        assert "\n" not in refusal


def test_a_folder_may_hold_a_mixture(tmp_path: Path) -> None:
    for kind in ("comma", "markdown", "html", "docx", "pdf", "mailbox", "subtitles"):
        written(tmp_path, FILES[kind])
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\0\0")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    (tmp_path / ".hidden.md").write_text("Not read.\n")
    notes = ReadingNotes()
    documents = list(Collection(str(tmp_path)).documents(notes))
    for sentence in SENTENCES:
        assert sum(sentence in one.sentences for one in documents) == 7
    assert sum(notes.taken_for.values()) == 7
    left_out = [line for line in notes.lines() if line.startswith("left out")]
    assert [line for line in left_out if "(.png)" in line]
    assert [line for line in left_out if "other.csv: no column 'text'; columns there: a, b" in line]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.doc", b"\xd0\xcf\x11\xe0 old", "an old Office file is not read; save it as .docx"),
        ("a.rtf", b"{\\rtf1 text}", "rich text (RTF) is not read; save it as .docx"),
        ("a.xlsx", zipped({"xl/workbook.xml": "<x/>"}), ".xlsx files are not read; save it as .csv"),
        ("a.pptx", zipped({"ppt/slides/slide1.xml": "<x/>"}), ".pptx files are not read; save it as .pdf"),
        ("a.zip", zipped({"a.txt": "One.\n"}), ".zip files are not read; unpack it and give the folder"),
        ("a.ipynb", b"{}", ".ipynb files are not read; save it as .md (jupyter nbconvert --to markdown)"),
        ("a.xyz", b"One.\n", "unknown kind of file '.xyz'"),
        ("a.txt", b"", "the file is empty"),
    ],
)
def test_other_kinds_are_refused_with_what_to_do(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError) as refused:
        list(Collection(str(path)).documents())
    assert message in str(refused.value)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ("One; two.\nThree; four.\nFive; six.\n", "text"),
        ("One, two.\nThree, four.\nFive, six.\n", "text"),
        ("a\tb\nc\td\n", "text"),
        ("title\ttext\nA\tOne.\nB\tTwo.\n", "table"),
        ("[1] One.\n[2] Two.\n", "text"),
        ("{x} One.\nTwo.\n", "text"),
        ("From here on we walk.\nTo the sea.\n", "text"),
        ("<b>One</b> line.\nTwo.\n", "text"),
        ("At 12:30 he left.\nAt 12:40 he came.\n", "text"),
    ],
)
def test_a_text_file_is_taken_for_another_kind_only_on_clear_signs(tmp_path: Path, content: str, kind: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text(content)
    assert recognise(path).name == kind


@pytest.mark.skipif(not CASES.is_dir(), reason="no shared cases here")
@pytest.mark.parametrize(
    ("name", "fields", "count", "title"),
    [
        ("excel.csv", "Betreff,Text", 60, "Ticket 0 Zündung, defekt"),
        ("excel1252.csv", "Betreff,Text", 60, "Zündung – größer 0"),
        ("excel16.txt", "Betreff,Text", 60, "Zündung 0"),
        ("csep.csv", "Titel,text", 40, "Zündung 0"),
        ("pipe.csv", "Titel,text", 40, "Zündung 0"),
        ("comma.tsv", "Titel,text", 40, "Zündung 0"),
        ("array.json", "", 60, "Topic 0"),
        ("nested.jsonl", "content.title,content.body", 60, "Topic 0"),
        ("Posts.xml", "", 80, "How to 0"),
        ("posts.csv", "", 80, "How to 0"),
        ("mail.mbox", "", 60, "Grüße 0"),
        ("film.srt", "", 1, ""),
        ("pdf.txt", "--pages", 1, ""),
        ("pdfdir", "--pages", 1, ""),
        ("one.md", "", 22, "Page 0"),
        ("md", "", 60, "Page 0"),
    ],
)
def test_shared_cases(tmp_path: Path, name: str, fields: str, count: int, title: str) -> None:
    path = tmp_path / name
    (shutil.copytree if (CASES / name).is_dir() else shutil.copy)(CASES / name, path)
    pages = fields == "--pages"
    names = None if pages or not fields else tuple(fields.split(","))
    documents = list(Collection(str(path), names, pages=pages).documents())
    assert (len(documents), documents[0].title) == (count, title)
    text = " ".join(one.body for one in documents)
    for wrong in ("<p>", "</", "&lt;", "-->", "x = 1", "print(1)", "quoted line", "A. Person", "ANNUAL REPORT", "- \n"):
        assert wrong not in text


@pytest.mark.parametrize("name", ["a.json", "a.txt", "a.jsonl"])
def test_a_list_with_an_object_per_line_inside_an_object_is_one_value(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    lines = ["{", '  "data": [', '    {"text": "The kettle boils."},', '    {"text": "Tea is hot."}', "  ]", "}"]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = Collection(str(file), ("text",)).documents()
    assert [one.sentences[0] for one in rows] == ["The kettle boils.", "Tea is hot."]


def test_lines_of_json_texts_are_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('"The kettle boils."\n"Snow fell."\n')
    assert open_texts(path).read().rows == [("The kettle boils.",), ("Snow fell.",)]
    assert [document.sentences for document in Collection(str(path)).documents()] == [
        ("The kettle boils.",),
        ("Snow fell.",),
    ]


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)])
def test_a_packed_file_of_another_name_is_refused_with_its_name(
    tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(pack(b"The kettle boils.\n"))
    with pytest.raises(UserError, match=rf"a\.txt: is packed; rename it to a\.txt\{suffix}, or unpack it"):
        recognise(path)
    path = path.rename(tmp_path / f"a.txt{suffix}")
    assert recognise(path).name == "text"
    (tmp_path / "b.txt").write_text("BZh is how such a file begins.\n")
    assert recognise(tmp_path / "b.txt").name == "text"


def test_a_page_that_a_script_fills_is_counted(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<html><body><p>The kettle boils.</p></body></html>")
    (tmp_path / "b.html").write_text('<html><body><div id="root"></div><script>fill()</script></body></html>')
    notes = ReadingNotes()
    assert len(list(Collection(str(tmp_path)).documents(notes))) == 1
    assert notes.lines()[-1] == "left out   1 file with nothing but tags, code or blank lines"
