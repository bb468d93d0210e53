"""Which fields are a document's title and text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opencse.errors import MissingColumnError, UserError
from opencse.text.documents import Collection
from opencse.text.fields import DocumentFields, choose_fields, suggest_fields
from opencse.text.readers import Source


def source(tmp_path: Path, content: str, name: str = "a.csv") -> Source:
    (tmp_path / name).write_text(content, encoding="utf-8")
    return Source(str(tmp_path / name))


def rows(line: str, count: int = 20) -> str:
    return "".join(line.replace("#", str(number)) + "\n" for number in range(count))


@pytest.mark.parametrize(
    ("content", "suggested"),
    [
        ("id;name;abstract\n" + rows("#;A name of #;The abstract of # is long enough."), ("name", "abstract")),
        ("question;answer\n" + rows("what # is;answer # here"), ("question", "answer")),
        ("abstract;doc title\n" + rows("The abstract of # is long enough.;A name of #"), ("doc title", "abstract")),
        ("id;lang;body\n" + rows("#;en;The body of # is here."), ("body",)),
        ("id;n\n" + rows("#;1"), ()),
        (rows("#;Text number # is here."), ("2",)),
    ],
)
def test_what_is_suggested_works(tmp_path: Path, content: str, suggested: tuple[str, ...]) -> None:
    table = source(tmp_path, content)
    assert suggest_fields(table) == suggested
    with pytest.raises(
        MissingColumnError, match=f"--fields '?{','.join(suggested)}" if suggested else "with --fields$"
    ):
        choose_fields(table, None)
    if suggested:
        assert len(list(Collection(table.location, suggested).documents())) == 20


def test_names_in_any_letter_case_and_nested(tmp_path: Path) -> None:
    assert choose_fields(source(tmp_path, "Title,TEXT\nA,B\n"), None) == DocumentFields("Title", ("TEXT",), None)
    record = {"_id": 1, "meta": {"title": "A"}, "a.b": {"c": "Exact."}, "body": {"text": "B", "more": "C"}}
    lines = source(tmp_path, json.dumps(record) + "\n", "a.jsonl")
    names = choose_fields(lines, ["meta.title", "body.text", "body.more", "a.b.c"])
    assert names == DocumentFields("meta.title", ("body.text", "body.more", "a.b.c"), "_id")
    (one,) = Collection(lines.location, ("meta.title", "body.text", "body.more", "a.b.c")).titled_texts()
    assert (one.title, one.text, one.name) == ("A", "B C Exact.", "1")


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    table = source(tmp_path, "title,text\nA,B\n")
    with pytest.raises(MissingColumnError, match=r"a\.csv: no column 'txt' \(did you mean 'text'\?\)"):
        choose_fields(table, ["txt"])
    with pytest.raises(UserError, match="the field 'text' is named twice; name each once"):
        choose_fields(table, ["text", "text"])
    with pytest.raises(MissingColumnError, match="no column 'nr'"):
        list(Collection(table.location, ids="nr").titled_texts())
    with pytest.raises(UserError, match=r"line 2: the id in column '_id' is empty|is list"):
        list(Collection(source(tmp_path, '{"_id": [1], "text": "A"}\n', "a.jsonl").location).titled_texts())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "number,text\n1,One.\n,Two.\n"),
        ("a.tsv", "number\ttext\n1\tOne.\n  \tTwo.\n"),
        ("a.jsonl", '{"number": 1, "text": "One."}\n{"number": "", "text": "Two."}\n'),
        ("b.jsonl", '{"number": 1, "text": "One."}\n{"number": null, "text": "Two."}\n'),
    ],
)
def test_an_empty_id_is_refused_where_ids_are_named(tmp_path: Path, name: str, content: str) -> None:
    """Its row got a number, under which it was added a second time by --replace."""
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=r"(line|row) [23]: the id in column 'number' is empty; give a text or a whole"):
        list(Collection(str(path), ids="number").titled_texts())
    renamed = tmp_path / f"new-{name}"  # the usual name is no promise that each row has one
    renamed.write_text(content.replace("number", "_id"), encoding="utf-8")
    assert [one.name for one in Collection(str(renamed)).titled_texts()] == ["1", ""]


def test_ids_of_an_export_of_mongodb(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"_id": {"$oid": "64f"}, "text": "One."}\n')
    assert [one.name for one in Collection(str(path), ids="_id.$oid").titled_texts()] == ["64f"]
    assert [one.name for one in Collection(str(path), ids="_id").titled_texts()] == ["64f"]
