"""Files of every kind are recognised, and give the same documents."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from files_of_kinds import FILES, SENTENCES, TEXTS, TITLED, TITLES, Made, zipped
from opencse.errors import UserError
from opencse.text.documents import Collection, Document
from opencse.text.files.kinds import Reading, recognise
from opencse.text.folders import ReadingNotes
from opencse.text.readers import Source


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
def test_a_truncated_file_gives_documents_or_one_line(tmp_path: Path, kind: str) -> None:
    made = FILES[kind]
    for share in (0.95, 0.5):
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


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.doc", b"\xd0\xcf\x11\xe0 old", ".doc files are not read; save it as .docx"),
        ("a.txt", b"\xd0\xcf\x11\xe0 old", "is an old Office file, which is not read; save it as .docx"),
        ("a.csv", zipped({"xl/workbook.xml": "<x/>"}), "is a ZIP archive (Word, slides, a spreadsheet"),
        ("a.md", b"%PDF-1.4", "is a PDF; rename it to end in .pdf"),
        ("a.xlsx", zipped({"xl/workbook.xml": "<x/>"}), ".xlsx files are not read; save it as .csv"),
        ("a.zip", zipped({"a.txt": "One.\n"}), ".zip files are not read; unpack it and give the folder"),
        ("a.ipynb", b"{}", ".ipynb files are not read; save it as .md (jupyter nbconvert --to markdown)"),
        ("a.txt", b"", "the file is empty"),
        ("a.txt", gzip.compress(b"One.\n", mtime=0), "is packed; rename it to a.txt.gz, or unpack it"),
    ],
)
def test_other_kinds_are_refused_with_what_to_do(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError) as refused:
        list(Collection(str(path)).documents())
    assert message in str(refused.value)
    assert str(path) in str(refused.value)


def test_the_name_says_what_a_file_is_and_an_option_overrides_it(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for content in ("title\ttext\nA\tOne.\nB\tTwo.\n", '{"text": "One."}\n', "<p>One</p>\n", "WEBVTT\n"):
        path.write_text(content)
        assert recognise(path).name == "text", content
    path.write_text("title\ttext\nA\tOne.\nB\tTwo.\n")
    assert [one.title for one in Collection(str(path), read_as="tsv").documents()] == ["A", "B"]
    assert Source(str(path), read_as="csv").kind == recognise(path, Reading(read_as="tsv"))
    with pytest.raises(UserError, match=r"--read-as cvs: not a kind that is read \(did you mean 'csv'"):
        recognise(path, Reading(read_as="cvs"))
    with pytest.raises(UserError, match="those of a folder are what their names say"):
        list(Collection(str(tmp_path), read_as="tsv").documents())


def test_a_header_without_a_name_for_the_names_of_rows_as_r_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("title\ttext\n1\tA\tOne, two.\n2\tB\tThree.\n")
    assert [(one.title, one.body) for one in Collection(str(path)).documents()] == [("A", "One, two."), ("B", "Three.")]
    assert Source(str(path), ("title", "text")).read().rows == [("A", "One, two."), ("B", "Three.")]


def test_what_pandas_reads_as_missing_is_an_empty_cell(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("anchor,positive\nOne.,Two.\nThree.,NULL\nNA,Four.\nNation,Five.\n")
    source = Source(str(path))
    assert source.read().rows == [("One.", "Two."), ("Nation", "Five.")]
    assert source.left_out_rows.endswith("(the first: line 3, column 'positive'; 2 NULL, NA or the like)")


def test_a_broken_file_of_a_folder_is_left_out_as_a_whole_and_said(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text\nOne.\n")
    (tmp_path / "b.csv").write_text('text\nTwo.\n"Three.\n')
    notes = ReadingNotes()
    assert [one.body for one in Collection(str(tmp_path)).documents(notes)] == ["One."]
    assert notes.lines()[-1].startswith("left out   1 file that cannot be read to the end (")
    assert Source(str(tmp_path), None, None).read().rows == [("One.",)]
    packed = gzip.compress(b"Four.")[:-9]
    for name, content in (("c.pdf", b"%PDF-1.4"), ("d.txt", b"\0"), ("e.md", b"\xc3\xa9\xff"), ("f.txt.gz", packed)):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=name):
            list(Collection(str(tmp_path / name)).documents())
    notes = ReadingNotes()
    assert [one.body for one in Collection(str(tmp_path)).documents(notes)] == ["One."]
    assert [line[:50] for line in notes.lines()[1:]] == ["left out   5 files that cannot be read to the end "]


def test_a_made_id_is_no_id_of_a_later_file(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\n\nOne.\n")
    (tmp_path / "b.jsonl").write_text('{"_id": "a.md#a", "text": "Two."}\n')
    assert [one.name for one in Collection(str(tmp_path)).documents()] == ["a.md#a-1", "a.md#a"]
