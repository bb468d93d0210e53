from __future__ import annotations

import os
from pathlib import Path

import pytest

from helpers import Heard
from opencse.errors import UserError
from opencse.text.check import read_to_check
from opencse.text.documents import Collection
from opencse.text.folders import ReadingNotes
from opencse.text.given import open_texts


@pytest.fixture
def with_links(tmp_path: Path) -> Path:
    """A folder with a text, two broken links, two links to a folder and a pipe."""
    folder, elsewhere = tmp_path / "documents", tmp_path / "elsewhere"
    for one in (folder, elsewhere):
        one.mkdir()
        (one / "a.md").write_text("# Kettles\n\nFill it.\n", encoding="utf-8")
    for name, target in (("b.md", "nothing"), ("c.txt", "c.txt"), ("linked", elsewhere), ("too", elsewhere)):
        (folder / name).symlink_to(target)
    (folder / "a.txt").symlink_to(folder / "a.md")
    (folder / ".hidden.md").symlink_to("nothing")
    os.mkfifo(folder / "p.txt")
    return folder


LEFT_OUT = [
    "2 links to a file that does not exist (the first: b.md)",
    "2 links to a folder; links to folders are not followed (the first: linked)",
    "1 file such as a pipe or device (p.txt)",
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


FILES = {
    "a.csv": "id;text\n1;Fill it.\n2;Switch it on.\n",
    "b.jsonl": '{"text": "Snow fell.", "meta": {"by": "Ann"}}\n',
    "c/d.tsv": "text\tn\nIt was cold.\t4\n",
    "c/e.json": '{"k1": "Trams run.", "k2": "Rivers flood."}',
    "numbers.csv": "year,price\n2020,7\n",
    "empty.csv": "",
    "picture.svg": "<svg/>",
    "latest.csv": "text\nRain.\n",
}
TEXTS = ["Fill it.", "Switch it on.", "Snow fell.", "It was cold.", "Trams run.", "Rivers flood.", "Rain."]


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        file = tmp_path / "tables" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    return tmp_path / "tables"


def test_rows_and_documents_of_a_folder_have_the_same_texts(tables: Path) -> None:
    heard = Heard()
    rows = open_texts(tables, say=heard.say)
    assert [row for (row,) in rows.read().rows] == TEXTS
    assert [text for one in Collection(str(tables)).documents() for text in one.sentences] == TEXTS
    assert [row for (row,) in read_to_check(tables).texts.rows] == TEXTS
    assert heard.said[0] == "read as    the rows of 5 files, one after the other"
    assert heard.said[1].startswith("left out   1 file without the columns (")
    assert "numbers.csv" in heard.said[1]


@pytest.mark.parametrize(
    ("train", "other"),
    [("train.csv", "test.csv"), ("train/a.csv", "dev/a.csv")],
)
def test_the_training_split_is_read_unless_another_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, train: str, other: str
) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    folder, heard = tmp_path / "set", Heard()
    for name, text in ((train, "Of train."), (other, "Of another.")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"text\n{text}\n")
    split = "test" if "test" in other else "validation"
    assert open_texts(folder, say=heard.say).read().rows == [("Of train.",)]
    assert heard.said[0].startswith("read as    the split train; --split names another")
    assert open_texts(folder, split=split).read().rows == [("Of another.",)]
    if not (folder / "train").exists():
        assert len(open_texts(folder / "*.csv").read().rows) == 2
