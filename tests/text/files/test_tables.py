"""JSON arrays, and lists inside objects."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from helpers import write_rows
from opencse.errors import UserError
from opencse.text.documents import Collection
from opencse.text.files.dumps import read_xml, wikipedia_sections
from opencse.text.files.formats import read_json
from opencse.text.readers import Source

ROWS = [{"text": f"Text {number}", "tags": ["a", {"b": "]"}]} for number in range(50)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"text": "One."}', "line 1: not valid JSON (Expecting ',' delimiter)"),
        ('[{"text": "One."}\n {"text": "Two."}]', "line 2: not valid JSON (Expecting ',' delimiter)"),
        ('[{"text": "One."}] x', "line 1: not valid JSON ("),
        ("[[1]]", "row 1: an object or a text is expected, not list"),
        ("[]", "holds no objects"),
        ("[" * 100_000, "not valid JSON ("),
    ],
)
def test_faults_in_one_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(UserError) as refused:
        list(read_json(path))
    assert message in str(refused.value)
    assert str(refused.value).startswith(str(path))
    assert "\n" not in str(refused.value)


def test_objects_of_a_list(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for value in (ROWS, {"ok": True, "response": {"total": 50, "docs": ROWS, "few": ROWS[:2]}}):
        for indent in (None, 2):
            path.write_text(json.dumps(value, indent=indent))
            assert list(read_json(path)) == list(enumerate(ROWS, start=1))


def test_texts_by_id_are_documents_unless_keys_are_those_of_a_record(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    by_id = {"Berlin": "Trams run all night.", "Paris": "The river floods in spring."}
    path.write_text(json.dumps(by_id, indent=1))
    wanted = [{"_id": key, "text": text} for key, text in by_id.items()]
    assert [record for _, record in read_json(path)] == [record for _, record in read_json(path, ["text"])] == wanted
    assert [record for _, record in read_json(path, ["Paris"])] == [by_id]
    for record in ({"Title": "A", "body": "One."}, {"id": "7", "body": "One."}, {"a": "One.", "n": 1}):
        path.write_text(json.dumps(record))
        assert [one for _, one in read_json(path)] == [record]


def records(path: Path, content: str) -> list[dict[str, object]]:
    path.write_text(content, encoding="utf-8")
    return [record for _, record in read_xml(path)]


def test_elements_inside_the_root_are_records(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    assert records(path, "<d><r a='1'>One.</r>\n<r a='2'><b c='x'>Two.</b></r></d>") == [
        {"a": "1", "text": "One."},
        {"a": "2", "b.c": "x", "b": "Two."},
    ]
    assert records(path, "<d xmlns='n'><r><d>One</d><d>Two</d></r></d>") == [{"d": "One\nTwo"}]


BOMB = "<!DOCTYPE d [<!ENTITY a 'ha'>" + "".join(
    f"<!ENTITY {chr(98 + n)} '{f'&{chr(97 + n)};' * 10}'>" for n in range(9)
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (BOMB + "]><d><r>&j;</r><r>&j;</r></d>", "line 1: not well-formed XML (limit on input amplification"),
        ("<d><r>One.</r>\n<r>Two.</d>", "line 2: not well-formed XML (mismatched tag)"),
        ("<d>One.</d>", "no records in it"),
    ],
)
def test_faults_of_xml_in_one_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "a.xml"
    with pytest.raises(UserError) as refused:
        records(path, content)
    assert message in str(refused.value)
    assert str(refused.value).startswith(str(path))


def test_articles_of_a_wikipedia_dump(tmp_path: Path) -> None:
    path = tmp_path / "w.xml"
    text = (
        "{{Infobox|a={{b|c}}}}\n{| class=x\n| cell {| inner |}\n|}\n'''Kettles''' are [[Vessel|vessels]].&lt;ref&gt;no"
        "&lt;/ref&gt;\n\n== History ==\n* They [http://a.b boil] water.\n[[File:a.jpg|thumb|A [[picture]]]]\n"
        "[[Category:Things]]\n&lt;!-- no --&gt;__NOTOC__"
    )
    page = "<page><title>{}</title><ns>{}</ns><id>{}</id>{}<revision><text>{}</text></revision></page>\n"
    path.write_text(
        "<mediawiki xmlns='http://www.mediawiki.org/xml/export-0.11/'>"
        + page.format("Kettle", 0, 7, "", text)
        + page.format("Talk:Kettle", 1, 8, "", "Talk.")
        + page.format("Kettles", 0, 9, '<redirect title="Kettle"/>', "#REDIRECT [[Kettle]]")
        + "</mediawiki>"
    )
    (section,) = wikipedia_sections(path)
    assert (section.name, section.title) == ("7", "Kettle")
    assert section.paragraphs == ("Kettles are vessels.", "History", "They boil water.")


RECORDS = [
    {"n": 1, "meta": {"title": "Kettles", "by": {"name": "Ann"}}, "a.b": "first", "body": {"text": "Fill it."}},
    {"n": 2, "meta": None, "a.b": "second", "body": {"text": "Switch it on."}},
    {"n": 3, "meta": {"title": "Snow", "by": None}, "a.b": "third", "body": {"text": "Snow fell."}},
]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    lines, parquet = tmp_path / "a.jsonl", tmp_path / "a.parquet"
    write_rows(lines, RECORDS)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(RECORDS), parquet)
    return lines, parquet


def test_documents_of_structs_are_those_of_nested_keys(files: tuple[Path, Path]) -> None:
    for fields in (("meta.title", "body.text"), ("meta.by.name", "a.b")):
        of_lines, of_parquet = (
            [(one.title, one.sentences) for one in Collection(str(file), fields).documents()] for file in files
        )
        assert of_parquet == of_lines
        assert (len(of_parquet), of_parquet[1][0]) == (3, "")
    assert Source(str(files[1])).present() == ("n", "meta.title", "meta.by.name", "a.b", "body.text")
