"""Ids that the program makes collide with nothing, in every kind of file, and every command makes the same ones."""

from __future__ import annotations

from pathlib import Path

from files_of_kinds import docx, zipped
from opencse.search.row_sources import open_rows
from opencse.text.documents import Collection
from opencse.text.given import DocumentTexts
from opencse.text.readers import Source

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


def test_numbers_skip_the_ids_that_rows_have(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "A."}\n{"_id": "0", "text": "B."}\n{"_id": 5, "text": "C."}\n{"text": "D."}\n')
    texts = DocumentTexts(Collection(str(path)))
    assert [texts.id_of(record) for record, _ in texts.examples()] == ["6", "0", "5", "7"]
    assert open_rows(path).next_id == 6
    assert open_rows(["A.", {"text": "B.", "id": 0}]).next_id == 1
