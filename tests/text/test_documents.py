"""Documents from what people have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opencse import UserError
from opencse.text.documents import (
    Collection,
    Document,
    documents_in_memory,
    read_documents,
)
from opencse.text.files import lines
from opencse.text.folders import find_corpus
from opencse.text.reading_notes import ReadingNotes


def jsonl(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_running_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("One.\nTwo.\n\n\nThree.\n")
    assert read_documents(path) == [Document("", ("One.", "Two.")), Document("", ("Three.",))]


def test_lines_without_blank_lines_are_loose(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("One.\nTwo.\n")
    assert read_documents(path) == [Document("", ("One.",)), Document("", ("Two.",))]


def test_jsonl_with_and_without_titles(tmp_path: Path) -> None:
    path = jsonl(
        tmp_path / "corpus.jsonl",
        {"_id": "1", "title": "A title", "text": "One. Two.", "metadata": {}},
        {"_id": "2", "text": "Three."},
        {"_id": "3", "title": None, "text": "  "},
        {"_id": "4", "title": "the wing .", "text": "the wing . it flies . it lands ."},
    )
    wanted = [Document("A title", ("One.", "Two.")), Document("", ("Three.",)), Document("the wing .", ("it flies .", "it lands ."))]  # fmt: skip  # noqa: E501
    assert read_documents(path) == wanted
    assert read_documents(find_corpus(tmp_path)) == wanted
    assert wanted[0].body == "One. Two."


def test_an_object_may_hold_a_long_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "One sentence of a long report. " * 10_000
    path = jsonl(tmp_path / "a.jsonl", {"title": "Report", "text": text})
    assert len(read_documents(path)[0].sentences) == 10_000
    (tmp_path / "a.csv").write_text(f"title,text\nReport,{text}\n")
    assert read_documents(tmp_path / "a.csv") == read_documents(path)
    monkeypatch.setattr(lines, "MAX_RECORD_CHARACTERS", 200_000)
    with pytest.raises(UserError, match=r"line 1: more than 200,000 characters in one line; split the document"):
        read_documents(path)


def test_documents_that_are_not_named(tmp_path: Path) -> None:
    for location in ("", " "):
        with pytest.raises(UserError, match="no documents are named"):
            find_corpus(location)
    for record, what in (
        ({"Headline": "a"}, "a.jsonl: no column 'text'; columns there: Headline; name the documents' title and text"),
        ({"text": None}, "a.jsonl: no document with any text in it"),
    ):
        with pytest.raises(UserError, match=what):
            read_documents(jsonl(tmp_path / "a.jsonl", record))


@pytest.mark.parametrize(
    ("title", "text", "body"),
    [
        ("Cat", "Cats are fed.", "Cats are fed."),
        ("Cat", "Cat: it is fed.", "it is fed."),
        ("Bio", "Biology is a science.", "Biology is a science."),
        ("CAT (1)", "cat (1) - shows a file.", "shows a file."),
        ("Straße", "STRASSE ist lang.", "STRASSE ist lang."),
    ],
)
def test_a_title_is_taken_off_its_text_where_it_is_repeated_in_whole_words(
    tmp_path: Path, title: str, text: str, body: str
) -> None:
    assert read_documents(jsonl(tmp_path / "a.jsonl", {"title": title, "text": text}))[0].body == body


def test_a_table(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('id,title,text\n1,A title,"One, and. Two."\n')
    assert read_documents(path) == [Document("A title", ("One, and.", "Two."))]


def test_a_table_may_have_no_titles(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("title,text\n,One. Two.\nB title,Three.\nC title,\n")
    assert read_documents(path) == [Document("", ("One.", "Two.")), Document("B title", ("Three.",)), Document("", ("C title",), only_title=True)]  # fmt: skip  # noqa: E501
    path = tmp_path / "a.tsv"
    path.write_text("id\ttext\n1\tOne. Two.\n")
    assert read_documents(path) == [Document("", ("One.", "Two."))]
    path.write_text("id\tbody\n1\tOne. Two.\n")
    with pytest.raises(
        UserError, match=r"a.tsv: no column 'text'.*there: id, body; name the .*, for instance --fields body$"
    ):
        read_documents(path)


def test_fields_of_other_names(tmp_path: Path) -> None:
    records = {"headline": "Rates", "body": "One. Two.", "text": "not this"}, {"body": "Three.", "title": "nor this"}
    lines = jsonl(tmp_path / "a.jsonl", *records)
    titled, plain = Document("Rates", ("One.", "Two.")), Document("", ("One.", "Two."))
    assert read_documents(lines, ["headline", "body"]) == [titled, Document("", ("Three.",))]
    assert read_documents(lines, ["body"]) == [plain, Document("", ("Three.",))]
    table = tmp_path / "a.csv"
    table.write_text('headline,body\nRates,"One. Two."\n')
    assert read_documents(table, ["headline", "body"]) == [titled]
    assert read_documents(table, ["body"]) == [plain]
    text = tmp_path / "a.txt"
    text.write_text("One.\n")
    for path, fields, said in (
        (lines, ["head", "body"], "a.jsonl: no column 'head'.*; columns there: headline, body, text, title"),
        (
            lines,
            ["headline", "text"],
            r"line 2: no 'headline' and no 'text'; add it",
        ),
        (table, ["head", "body"], "a.csv: no column 'head'"),
        (text, ["body"], r"a.txt: has no fields \(one text per line\); leave out --fields"),
        (lines, ["body", "body"], "name each once"),
        (lines, ["a", "b", "c"], "no column 'a'"),
    ):
        with pytest.raises(UserError, match=said):
            read_documents(path, fields)


def test_documents_in_memory() -> None:
    assert documents_in_memory(["One. Two.", ("Rates", "Rates: three.")]) == [
        Document("", ("One.", "Two.")),
        Document("Rates", ("three.",)),
    ]
    with pytest.raises(UserError, match="document 2: a text, or a title and a text, is expected, not int"):
        documents_in_memory(["One.", 3])  # type: ignore[list-item]
    with pytest.raises(UserError, match="the documents given: no document with any text"):
        documents_in_memory([" "])


def test_faults_name_the_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a.jsonl, line 2: no 'text'; add it"):
        read_documents(jsonl(tmp_path / "a.jsonl", {"text": "One."}, {"body": "Two."}))
    with pytest.raises(UserError, match=r"line 1: 'title' is int, not text"):
        read_documents(jsonl(tmp_path / "a.jsonl", {"title": 3, "text": "One."}))
    with pytest.raises(UserError, match="no document with any text"):
        read_documents(jsonl(tmp_path / "a.jsonl", {"text": " "}))


def test_a_folder_with_files_that_are_not_read_tables_with_fields_and_prose(tmp_path: Path) -> None:
    """One file never stops the others, and fields are those of tables: prose is read as it is."""
    (tmp_path / "notes.md").write_text("# Valves\n\nThe valve leaks.\n")
    (tmp_path / "log.txt").write_text("The pump stopped.\n\nIt was cold.\n")
    (tmp_path / "own.csv").write_text("Betreff;Inhalt;Jahr\nRohr;Das Rohr ist undicht.;2020\n")
    (tmp_path / "slides.odt").write_bytes(b"PK\x03\x04")
    (tmp_path / "empty.txt").touch()
    notes = ReadingNotes()
    collection = Collection(str(tmp_path), ("Betreff", "Inhalt"), metadata=("Jahr",))
    documents = {(one.title, one.text): one.metadata for one in collection.titled_texts(notes)}
    assert documents == {
        ("Valves", "The valve leaks."): {"Jahr": None},
        ("", "The pump stopped.\nIt was cold."): {"Jahr": None},
        ("Rohr", "Das Rohr ist undicht."): {"Jahr": "2020"},
    }
    lines = "\n".join(notes.lines())
    assert "1 file of a kind that is not read (.odt; save it as .docx)" in lines
    assert "1 empty file" in lines
    assert "not read" not in lines.replace("is not read (", "")
    assert "a text file as one document, UTF-8" in lines


def test_ligatures_of_a_page_are_letters(tmp_path: Path) -> None:
    (tmp_path / "page.txt").write_text("The \ufb01le is di\ufb00erent.\f\nA \ufb02ag is o\ufb03cial.\f\n")
    (one,) = Collection(str(tmp_path / "page.txt"), pages=True).titled_texts()
    assert one.text == "The file is different. A flag is official."
