"""Notes on how a folder was read stay short, however many files were left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opencse.errors import UserError
from opencse.search.row_sources import open_rows
from opencse.text.documents import Collection, read_documents
from opencse.text.given import open_texts
from opencse.text.reading_notes import ReadingNotes


def notes_of(folder: Path) -> list[str]:
    notes = ReadingNotes()
    assert list(Collection(str(folder)).documents(notes))
    return notes.lines()


def test_files_left_out_for_one_reason_share_a_line(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("# Kettles\n\nFill it. Switch it on.\n")
    for number in range(30):
        record = {f"a field with a long name, number {field}": "x y z" for field in range(60)}
        (tmp_path / f"record{number:02}.json").write_text(json.dumps([record]))
    for name in ("a.svg", "b.svg", "c.py", "d.odt", "e.odt"):
        (tmp_path / name).write_text("something")
    left_out = [line for line in notes_of(tmp_path) if line.startswith("left out")]
    assert left_out[:2] == [
        "left out   2 files of a kind that is not read (.odt; save it as .docx)",
        "left out   3 files of kinds that are not read (2 .svg, 1 .py)",
    ]
    assert len(left_out) == 3
    assert left_out[2].startswith("left out   30 files without such fields (the first: ")
    assert "record00.json: no column 'text'; columns there: a field with a long name, number 0," in left_out[2]
    assert "more; name the documents' title and text" in left_out[2]
    assert len(left_out[2]) < 800 + len(str(tmp_path))


def test_kinds_beyond_the_most_frequent_are_counted() -> None:
    notes = ReadingNotes()
    for number in range(10):
        for _ in range(11 - number):
            notes.leave_out_kind(f".kind{number}" if number else "")
    (line,) = notes.lines()
    assert line.startswith("left out   65 files of kinds that are not read (11 no suffix, 10 .kind1, ")
    assert line.endswith("4 .kind7, 5 of other kinds)")
    one = ReadingNotes()
    one.leave_out_kind(".svg")
    assert one.lines() == ["left out   1 file of a kind that is not read (.svg)"]


def test_where_nothing_is_left_the_error_says_what_was_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps([{"head": "Kettles are hot.", "body": "Fill it. Switch it on."}]))
    (tmp_path / "b.xlsx").write_text("something")
    message = (
        f"{tmp_path}: no document with any text in it; left out: 1 file of a kind that is not read (.xlsx; save it as "
        f".csv); 1 file without such fields ({tmp_path / 'a.json'}: no column 'text'; columns there: head, body; name "
        "the documents' title and text, for instance --fields head,body)"
    )
    for read in (read_documents, open_rows):
        with pytest.raises(UserError) as caught:
            read(tmp_path)
        assert str(caught.value) == message
    with pytest.raises(UserError, match=r"no document with any text in it; left out: 1 file of a kind"):
        open_texts(tmp_path, fields=["title", "text"]).read()
