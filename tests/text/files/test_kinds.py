"""Files of every kind are recognised, and give the same documents."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from files_of_kinds import FILES, SENTENCES, TEXTS, TITLED, TITLES, Made, zipped
from opencse.errors import UserError
from opencse.text.documents import Collection, Document
from opencse.text.files.kinds import recognise
from opencse.text.reading_notes import ReadingNotes


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
        ("a.doc", b"\xd0\xcf\x11\xe0 old", "an old Office file is not read; save it as .docx"),
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


def test_a_text_file_is_taken_for_another_kind_only_on_clear_signs(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for content in (
        "One; two.\nThree; four.\nFive; six.\n",
        "a\tb\nc\td\n",
        "[1] One.\n[2] Two.\n",
        "{x} One.\nTwo.\n",
        "From here on we walk.\nTo the sea.\n",
        "<b>One</b> line.\nTwo.\n",
        "At 12:30 he left.\nAt 12:40 he came.\n",
        "BZh is how such a file begins.\n",
    ):
        path.write_text(content)
        assert recognise(path).name == "text", content
    path.write_text("title\ttext\nA\tOne.\nB\tTwo.\n")
    assert recognise(path).name == "table"
