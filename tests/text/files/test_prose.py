"""Folders of text and Markdown files."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import Run
from opencse import UserError
from opencse.text.documents import (
    Collection,
    Document,
    read_documents,
)
from opencse.text.files.paragraphs import Section
from opencse.text.folders import holds_documents, holds_prose
from opencse.text.given import DocumentTexts, open_texts
from opencse.text.reading_notes import ReadingNotes

PAGE = """---
title: The manual
---

Before any heading.

# Kettles

A kettle *boils* water. See
[the manual](manual.md) for `on`.

```sh
rm -rf kettle
```

## Descaling (at home)

- Use vinegar.
- Rinse twice,
  then dry.

<div>no prose</div>

| part | price |
|------|-------|
| lid  | 4     |

## Empty

## Kettles

Again.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pages = tmp_path / "pages"
    (pages / "deep").mkdir(parents=True)
    (pages / ".hidden").mkdir()
    (pages / "kettle.md").write_text(PAGE, encoding="utf-8")
    (pages / "deep" / "note.txt").write_text(
        "The first line is broken here because\nthe width is no more. Then\nit ends.\n\n"
        "Another paragraph.\nA list item\nAnd one\n"
    )
    (pages / "empty.txt").write_text("")
    (pages / ".hidden" / "secret.md").write_text("Not read.")
    (pages / "table.csv").write_text("not,read\n")
    return pages


def test_sections_of_pages_and_paragraphs_of_texts(folder: Path) -> None:
    notes = ReadingNotes()
    read = Collection(str(folder)).titled_texts(notes)
    assert [Section(one.name, one.title, one.paragraphs) for one in read] == [
        Section(
            "deep/note.txt",
            "",
            (
                "The first line is broken here because the width is no more. Then",
                "it ends.",
                "Another paragraph.",
                "A list item",
                "And one",
            ),
        ),
        Section("kettle.md", "The manual", ("Before any heading.",)),
        Section("kettle.md#kettles", "The manual: Kettles", ("A kettle boils water. See the manual for on.",)),
        Section(
            "kettle.md#descaling-at-home",
            "The manual: Descaling (at home)",
            ("Use vinegar.", "Rinse twice, then dry.", "part, price", "lid, 4"),
        ),
        Section("kettle.md#kettles-1", "The manual: Kettles", ("Again.",)),
    ]
    assert [line.split("(")[0].strip() for line in notes.lines()] == [
        "read as    a text file as one document, UTF-8",
        "read as    Markdown, UTF-8",
        "left out   1 empty file",
        "left out   1 file without such fields",
    ]


def test_documents_know_their_place(folder: Path) -> None:
    found = read_documents(folder)
    assert found[2] == Document("The manual: Kettles", ("A kettle boils water.", "See the manual for on."))
    assert holds_prose(folder)
    (folder / "corpus.jsonl").write_text('{"_id": "a", "text": "In BEIR\'s layout."}\n')
    assert not holds_prose(folder)
    assert holds_documents(folder)


def test_a_folder_is_running_text(folder: Path) -> None:
    texts = open_texts(folder)
    assert isinstance(texts, DocumentTexts)
    read = texts.read()
    assert read.documents is not None
    assert read.documents[:6] == [0, 0, 0, 0, 0, 0]
    assert read.documents[-1] == 4
    assert list(texts.rows_with_documents()) == list(zip(read.documents, read.rows, strict=True))
    before = texts.fingerprint()
    assert open_texts(folder).fingerprint() == before
    (folder / "deep" / "note.txt").write_text("Another text.\n")
    assert open_texts(folder).fingerprint() != before


def test_files_without_prose(tmp_path: Path, opencse: Run) -> None:
    (tmp_path / "a.md").write_text("```\ncode\n```\n")
    wanted = f"{tmp_path}: no document with any text in it"
    out = tmp_path.parent / "out"
    for command in (["adapt", tmp_path, "-o", out], ["train", tmp_path, "-o", out], ["check", tmp_path]):
        code, _, err = opencse(*command)
        assert code == 2
        assert err.strip().splitlines()[-1].removeprefix("opencse: ").startswith(wanted)


def test_a_folder_of_documents_is_running_text(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"title": "A", "text": "One. Two."}\n{"text": "Three. Four."}\n')
    read = open_texts(tmp_path).read()
    assert (read.rows, read.documents) == ([("One.",), ("Two.",), ("Three.",), ("Four.",)], [0, 0, 1, 1])


def test_faults_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds neither a corpus\.jsonl nor any file of a kind that is read"):
        read_documents(tmp_path)
    assert not holds_documents(tmp_path)
    (tmp_path / "a.md").write_bytes("Zürich\n".encode() + b"\xff\n")
    with pytest.raises(UserError, match=r"a\.md, line 2: "):
        read_documents(tmp_path)


@pytest.mark.parametrize(
    ("page", "title", "paragraphs"),
    [
        ("---\n\nText after a rule.\n\n---\n\nMore.\n", "", ("Text after a rule.", "More.")),
        ("---\nText after a rule.\n---\n\nMore.\n", "", ("More.",)),
        ("---\n- an item\n\n---\n\nMore.\n", "", ("an item", "More.")),
        ("---\n---\nText.\n", "", ("Text.",)),
        ("---\n# remark\n---\nText.\n", "", ("Text.",)),
        ("---\nlayout: page\n---\nText.\n", "", ("Text.",)),
        ("---\ntitle: A: B\n---\nText.\n", "A: B", ("Text.",)),
        ("---\ntitle: 0\n---\nText.\n", "0", ("Text.",)),
        ("---\nwords: &a [x]\ntitle: *a\n---\nText.\n", "", ("Text.",)),
        ('---\ntitle: !!python/object/apply:os.system ["x"]\n---\nText.\n', "", ("Text.",)),
        ("+++\ntitle = \n+++\nText.\n", "", ("Text.",)),
        ("---\ntitle: Alone\n---\n", "Alone", ()),
        ("# Alone\n", "Alone", ()),
        ("# Page\n\n## Empty\n\n## Full\n\nText.\n", "Page: Full", ("Text.",)),
    ],
)
def test_front_matter_is_not_text_and_a_title_alone_is_kept(
    tmp_path: Path, page: str, title: str, paragraphs: tuple[str, ...]
) -> None:
    path = tmp_path / "a.md"
    path.write_text(page, encoding="utf-8")
    notes = ReadingNotes()
    texts = list(Collection(str(path)).titled_texts(notes))
    assert [paragraph for text in texts for paragraph in text.paragraphs] == list(paragraphs)
    if not page.startswith("---\nText"):  # a line of text above --- is a heading
        assert texts[0].title == title
    assert notes.only_titles == (0 if paragraphs else 1)
