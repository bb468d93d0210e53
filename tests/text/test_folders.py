from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import opencse
from helpers import Heard
from opencse.errors import UserError
from opencse.text.documents import Collection
from opencse.text.folders import files_in, find_corpus, holds_documents, holds_prose
from opencse.text.reading_notes import ReadingNotes


def test_files_of_a_folder_by_name_without_hidden_ones(tmp_path: Path) -> None:
    for name in ("b.md", "a/c.txt", ".hidden/d.txt", "a/.e.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert [path.relative_to(tmp_path).as_posix() for path in files_in(tmp_path).files] == ["a/c.txt", "b.md"]


@pytest.fixture
def with_links(tmp_path: Path) -> Path:
    """A folder with a text, two broken links, a link to a folder and a pipe."""
    folder, elsewhere = tmp_path / "documents", tmp_path / "elsewhere"
    for one in (folder, elsewhere):
        one.mkdir()
        (one / "a.md").write_text("# Kettles\n\nFill it.\n", encoding="utf-8")
    for name, target in (("b.md", "nothing"), ("c.txt", "c.txt"), ("linked", elsewhere), ("a.txt", folder / "a.md")):
        (folder / name).symlink_to(target)
    (folder / ".hidden.md").symlink_to("nothing")
    os.mkfifo(folder / "p.txt")
    return folder


LEFT_OUT = [
    "2 links to a file that does not exist (the first: b.md)",
    "1 folder that is a link to a folder; links to folders are not followed (linked)",
    "1 file that is a pipe or device (p.txt)",
]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pipes in folders")
def test_links_and_pipes_are_left_out_and_named(with_links: Path, tmp_path: Path) -> None:
    """A folder of another program, whose texts are links, was read in part without a word."""
    notes = ReadingNotes()
    assert len(list(Collection(str(with_links)).titled_texts(notes))) == 2
    assert notes.lines()[-3:] == [f"left out   {line}" for line in LEFT_OUT]
    for name in ("a.md", "a.txt"):
        (with_links / name).unlink()
    with pytest.raises(
        UserError, match=r"holds neither a corpus\.jsonl nor any file of a kind .*left out: 2 links to a"
    ):
        list(Collection(str(with_links)).titled_texts())


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pipes in folders")
@pytest.mark.parametrize("work", ["check", "encode", "index", "adapt", "train"])
def test_each_command_names_the_links_that_it_leaves_out(
    with_links: Path, tmp_path: Path, work: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    heard = Heard()
    text = "".join(f"The kettle {n} boils.\n" for n in range(300))
    (with_links / "many.txt").write_text(text, encoding="utf-8")
    options: dict[str, Any] = {"device": "cpu", "progress": heard}
    if work == "check":
        heard.said += opencse.check(with_links).read_as
    elif work == "encode":
        opencse.encode("opencse-mini", with_links, "v.npy", **options)
    elif work == "index":
        opencse.build_index("ix", "opencse-mini", with_links, **options)
    elif work == "adapt":
        opencse.adapt(with_links, out="run", dry_run=True, **options)
    else:
        opencse.train(with_links, out="run", recipe="simcse", dry_run=True, dev="none", **options)
    said = "\n".join(heard.said)
    for line in LEFT_OUT:
        assert line in said, said


@pytest.mark.parametrize("name", ["corpus.jsonl", "corpus.jsonl.gz"])
def test_the_corpus_of_a_folder_in_beirs_layout(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.md").write_text("# Notes")
    assert find_corpus(tmp_path) == tmp_path
    assert holds_prose(tmp_path)
    (tmp_path / name).touch()
    assert find_corpus(tmp_path) == tmp_path / name
    assert not holds_prose(tmp_path)
    assert holds_documents(tmp_path)


BANNER, FEEDBACK = "Program 7.4 Help", "Tell us what is missing."
PAGES = {
    "html": f"<title>Topic {{n}}</title><p>{BANNER}</p><h1>Use {{n}}</h1><p>Press {{n}}.</p><p>{FEEDBACK}</p>",
    "md": f"{BANNER}\n\n# Use {{n}}\n\nPress {{n}}.\n\n{FEEDBACK}\n",
    "rst": f"{BANNER}\n\nUse {{n}}\n=====\n\nPress {{n}}.\n\n{FEEDBACK}\n",
    "txt": f"{BANNER}\n\nPress {{n}}.\n\n{FEEDBACK}\n",
    "eml": f"Subject: Use {{n}}\n\n{BANNER}\n\nPress {{n}}.\n\n{FEEDBACK}\n",
}


def test_lines_of_most_pages_are_left_out_and_counted(tmp_path: Path) -> None:
    for kind, page in PAGES.items():
        (folder := tmp_path / kind).mkdir()
        for n in range(4):
            (folder / f"{n}.{kind}").write_text(page.format(n=n))
        assert any(BANNER in one.text for one in Collection(str(folder)).titled_texts()), "four pages are too few"
        (folder / f"4.{kind}").write_text(page.format(n=4).upper().replace("TITLE", "title"))
        last = f"<p>{BANNER}</p>" if kind == "html" else f"{BANNER}\n"
        (folder / f"5.{kind}").write_text(last)  # a page of nothing else stays
        for location in [folder] if kind == "txt" else [folder, folder / f"*.{kind}"]:
            notes = ReadingNotes()
            texts = [one.text.lower() for one in Collection(str(location)).titled_texts(notes)]
            assert texts == [*(f"press {n}." for n in range(5)), BANNER.lower()], kind
            assert [line[:46] for line in notes.lines() if line.startswith("left out")] == [
                "left out   10 lines that most pages have, such",
                *["left out   5 parts of a page with nothing but "] * (kind in ("html", "md", "rst")),
            ]
        kept = Collection(str(folder), keep_repeated=True)
        assert sum(FEEDBACK in one.text for one in kept.titled_texts()) == 4


def test_pages_of_the_same_text_stay(tmp_path: Path) -> None:
    for n in range(6):
        (tmp_path / f"{n}.md").write_text("# Use\n\nPress the button.\n")
    notes = ReadingNotes()
    assert [one.text for one in Collection(str(tmp_path)).titled_texts(notes)] == ["Press the button."] * 6
    assert len(notes.lines()) == 1


def test_a_folder_of_tables_or_empty_files_holds_no_documents(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "empty.md").touch()
    assert not holds_documents(tmp_path)
    assert not holds_documents(tmp_path / "a.csv")


def test_an_empty_location_is_refused() -> None:
    with pytest.raises(UserError, match="the argument is empty"):
        find_corpus(" ")
