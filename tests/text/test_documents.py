"""Documents from what people have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from files_of_kinds import docx, zipped
from helpers import write_rows
from opencse.errors import MissingColumnError, UserError
from opencse.search.rows import open_rows
from opencse.text.documents import (
    Collection,
    Document,
    read_documents,
)
from opencse.text.fields import DocumentFields, choose_fields, suggest_fields
from opencse.text.folders import ReadingNotes, find_corpus
from opencse.text.readers import Source


def jsonl(path: Path, *records: object) -> Path:
    write_rows(path, records)
    return path


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


def test_a_table_may_have_no_titles_and_lines_no_documents(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("title,text\n,One. Two.\nB title,Three.\nC title,\n")
    assert read_documents(path) == [
        Document("", ("One.", "Two.")),
        Document("B title", ("Three.",)),
        Document("", ("C title",), only_title=True),
    ]
    path = tmp_path / "a.txt"
    path.write_text("One.\nTwo.\n\n\nThree.\n")
    assert read_documents(path) == [Document("", ("One.", "Two.")), Document("", ("Three.",))]
    path.write_text("One.\nTwo.\n")
    assert read_documents(path) == [Document("", ("One.",)), Document("", ("Two.",))]


def test_fields_of_other_names_and_faults(tmp_path: Path) -> None:
    records = {"headline": "Rates", "body": "One. Two.", "text": "not this"}, {"body": "Three.", "title": "nor this"}
    lines = jsonl(tmp_path / "a.jsonl", *records)
    assert read_documents(lines, ["headline", "body"]) == [
        Document("Rates", ("One.", "Two.")),
        Document("", ("Three.",)),
    ]
    text = tmp_path / "a.txt"
    text.write_text("One.\n")
    for path, fields, said in (
        (lines, ["head", "body"], "a.jsonl: no column 'head'.*; columns there: headline, body, text, title"),
        (lines, ["headline", "text"], r"line 2: no 'headline' and no 'text'; add it"),
        (text, ["body"], r"a.txt: has no fields \(one text per line\); leave out --fields"),
        (lines, ["body", "body"], "name each once"),
        (jsonl(tmp_path / "b.jsonl", {"title": 3, "text": "One."}), None, r"line 1: 'title' is int, not text"),
        (jsonl(tmp_path / "c.jsonl", {"text": " "}), None, "no document with any text"),
        (
            jsonl(tmp_path / "d.jsonl", {"Body": "a"}),
            None,
            "no column 'text'; columns there: Body; name the documents'",
        ),
    ):
        with pytest.raises(UserError, match=said):
            read_documents(path, fields)
    with pytest.raises(UserError, match="no documents are named"):
        find_corpus(" ")


def table_of(tmp_path: Path, content: str, name: str = "a.csv") -> Source:
    (tmp_path / name).write_text(content, encoding="utf-8")
    return Source(str(tmp_path / name))


def rows(line: str, count: int = 20) -> str:
    return "".join(line.replace("#", str(number)) + "\n" for number in range(count))


@pytest.mark.parametrize(
    ("content", "suggested"),
    [
        ("id;name;abstract\n" + rows("#;A name of #;The abstract of # is long enough."), ("name", "abstract")),
        ("id;lang;body\n" + rows("#;en;The body of # is here."), ("body",)),
        ("id;n\n" + rows("#;1"), ()),
        (rows("#;Text number # is here."), ("2",)),
    ],
)
def test_what_is_suggested_works(tmp_path: Path, content: str, suggested: tuple[str, ...]) -> None:
    table = table_of(tmp_path, content)
    assert suggest_fields(table) == suggested
    with pytest.raises(
        MissingColumnError, match=f"--fields '?{','.join(suggested)}" if suggested else "with --fields$"
    ):
        choose_fields(table, None)
    if suggested:
        assert len(list(Collection(table.location, suggested).documents())) == 20


def test_names_in_any_letter_case_and_nested(tmp_path: Path) -> None:
    assert choose_fields(table_of(tmp_path, "Title,TEXT\nA,B\n"), None) == DocumentFields("Title", ("TEXT",), None)
    record = {"_id": 1, "meta": {"title": "A"}, "a.b": {"c": "Exact."}, "body": {"text": "B", "more": "C"}}
    lines = table_of(tmp_path, json.dumps(record) + "\n", "a.jsonl")
    names = choose_fields(lines, ["meta.title", "body.text", "body.more", "a.b.c"])
    assert names == DocumentFields("meta.title", ("body.text", "body.more", "a.b.c"), "_id")
    (one,) = Collection(lines.location, ("meta.title", "body.text", "body.more", "a.b.c")).titled_texts()
    assert (one.title, one.text, one.name) == ("A", "B C Exact.", "1")


HEADINGS = ("Example", "Example", "Example 1", "!", "example", "?")
CHAPTERS = ("a/c", "b/c", "c-1")


def files() -> dict[str, bytes]:
    """A file of each kind in which parts have equal names, or one that a number behind another's makes."""
    html = "".join(f"<h2>{heading}</h2><p>Text {n}.</p>" for n, heading in enumerate(HEADINGS))
    items = "".join(f'<item id="{one}" href="{one}.xhtml"/>' for one in CHAPTERS)
    spine = "".join(f'<itemref idref="{one}"/>' for one in CHAPTERS)
    head = "From a@b.c Mon Jan  1 00:00:00 2024\nMessage-ID: <{}>\nSubject: Tea\n\nText {}.\n\n"
    pages = "".join(f"<page><id>7</id><title>T</title><revision><text>Text {n}.</text></revision></page>" for n in "ab")
    return {
        "a.html": html.encode(),
        "a.md": "".join(f"## {heading}\n\nText {n}.\n\n" for n, heading in enumerate(HEADINGS)).encode(),
        "a.rst": "".join(f"{one}\n=======\n\nText {n}.\n\n" for n, one in enumerate(HEADINGS)).encode(),
        "a.docx": docx([("Heading1" if i else "Normal", h) for h in HEADINGS for i in (1, 0)]),
        "a.epub": zipped(
            {
                "META-INF/container.xml": '<container><rootfile full-path="b.opf"/></container>',
                "b.opf": f"<package><manifest>{items}</manifest><spine>{spine}</spine></package>",
                **{f"{one}.xhtml": html for one in CHAPTERS},
            }
        ),
        "a.mbox": "".join(head.format(name, n) for n, name in enumerate(("m", "m", "m-1"))).encode(),
        "a.xml": f"<?xml version='1.0'?><mediawiki>{pages}</mediawiki>".encode(),
    }


def test_made_ids_are_unique_in_each_kind_of_file_and_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "all" / "deep").mkdir(parents=True)
    counts = []
    for name, content in files().items():
        for path in (tmp_path / name, tmp_path / "all" / name, tmp_path / "all" / "deep" / name):
            path.write_bytes(content)
        rows = [row.id for row in open_rows(tmp_path / name)]  # refuses an id that is there twice
        assert rows == [one.name for one in Collection(str(tmp_path / name)).documents()]
        assert rows == [record.values[0] for record in Source(str(tmp_path / name)).records(("_id",))]
        counts.append(len(rows))
    assert counts == [6, 6, 6, 6, 18, 3, 2]
    assert open_rows(tmp_path / "all").count == 2 * sum(counts) - 3  # copies of messages are read once
    assert open_rows(f"{tmp_path}/**/a.html").count == 18


def test_where_nothing_is_left_the_error_says_what_was_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps([{"head": "Kettles are hot.", "body": "Fill it. Switch it on."}]))
    (tmp_path / "b.xlsx").write_text("something")
    for read in (read_documents, open_rows):
        with pytest.raises(
            UserError, match=r"left out: .*a.json: no column 'text'.* --fields head,body.* 1 file of a kind"
        ):
            read(tmp_path)
