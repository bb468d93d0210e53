"""JSON arrays, and lists inside objects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.text.documents import Collection
from opencse.text.files import json_files, lines
from opencse.text.files.json_files import read_json
from opencse.text.given import open_texts
from opencse.text.text_to_check import read_to_check

ROWS = [{"text": f"Text {number}", "tags": ["a", {"b": "]"}]} for number in range(50)]


@pytest.mark.parametrize(
    "value",
    [ROWS, {"data": ROWS}, {"ok": True, "response": {"total": 50, "docs": ROWS, "few": ROWS[:2]}}],
    ids=["array", "inside", "deep"],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_objects_of_a_list(tmp_path: Path, value: object, indent: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(value, indent=indent))
    monkeypatch.setattr(lines, "_BLOCK", 16 * 7)  # so that values lie across blocks
    assert list(read_json(path)) == list(enumerate(ROWS, start=1))


def test_other_shapes(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    document = {"text": "One long text of a document.", "by": [{"n": "A"}]}
    for value, wanted in (
        (["One.", "Two."], [{"text": "One."}, {"text": "Two."}]),
        ({"a": {"text": "One."}, "b": {"text": "Two."}}, [{"_id": "a", "text": "One."}, {"_id": "b", "text": "Two."}]),
        (document, [document]),
    ):
        path.write_text(json.dumps(value))
        assert [record for _, record in read_json(path)] == wanted


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"text": "One."}', "line 1: not valid JSON (']' is expected; is the file complete?)"),
        ('[{"text": "One."}, {"text": "Tw', "line 1: not valid JSON (Unterminated string"),
        ('[{"text": "One."}\n {"text": "Two."}]', "line 2: not valid JSON (']' is expected)"),
        ('[{"text": "One."}] x', "line 1: not valid JSON (more text after the end of the array)"),
        ("[[1]]", "row 1: an object or a text is expected, not list"),
        ("[]", "holds no objects"),
        ('{"a": ', "line 1: not valid JSON (Expecting value)"),
        ("[" * 100_000, "line 1: not valid JSON ("),
        ('{"a":' * 100_000, "not valid JSON ("),
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


def test_an_object_has_a_longest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_files, "MAX_RECORD_CHARACTERS", 1_000)
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"text": "x" * 200_000}] * 3))
    with pytest.raises(UserError, match="more than 1,000 characters in one object"):
        list(read_json(path))


def test_texts_by_id_are_documents(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    by_id = {"Berlin": "Trams run all night.", "Paris": "The river floods in spring."}
    path.write_text(json.dumps(by_id, indent=1))
    wanted = [{"_id": key, "text": text} for key, text in by_id.items()]
    assert [record for _, record in read_json(path)] == wanted
    assert [record for _, record in read_json(path, ["text"])] == wanted
    assert [record for _, record in read_json(path, ["Paris"])] == [by_id]
    for record in (
        {"text": "One."},
        {"Title": "A", "body": "One."},
        {"id": "7", "body": "One."},
        {"a": "One.", "n": 1},
    ):
        path.write_text(json.dumps(record))
        assert [one for _, one in read_json(path)] == [record]


def test_every_reader_takes_texts_by_id_for_documents(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"k1": "Trams run. All night.", "k2": "The river floods."}))
    documents = [(one.name, one.sentences) for one in Collection(str(path)).documents()]
    assert documents == [("k1", ("Trams run.", "All night.")), ("k2", ("The river floods.",))]
    assert open_texts(path).read().rows == [("Trams run. All night.",), ("The river floods.",)]
    assert read_to_check(path).texts.rows == [("Trams run.",), ("All night.",), ("The river floods.",)]


def test_fields_of_one_record_of_texts_can_be_named(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"headline": "City", "body": "Trams run."}))
    documents = [(one.title, one.sentences) for one in Collection(str(path), ("headline", "body")).documents()]
    assert documents == [("City", ("Trams run.",))]
    assert open_texts(path, columns=["headline", "body"]).read().rows == [("City", "Trams run.")]
