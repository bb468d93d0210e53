"""One folder of tables gives the same texts to every command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers import Heard, Run, refused
from opencse.errors import UserError
from opencse.text.documents import Collection
from opencse.text.given import open_texts
from opencse.text.text_to_check import read_to_check

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


def test_pairs_of_a_folder_are_rows(tmp_path: Path) -> None:
    folder = tmp_path / "pairs"
    folder.mkdir()
    for name, text in (("a", "one"), ("b", "two")):
        (folder / f"{name}.csv").write_text(f"anchor;positive;note\nfirst {text};second {text};-\n")
    pairs = [("first one", "second one"), ("first two", "second two")]
    assert open_texts(folder).read().rows == pairs
    assert read_to_check(folder).texts.rows == pairs
    assert open_texts(folder, columns=["note"]).read().rows == [("-",), ("-",)]


def test_nested_keys_of_a_folder_are_columns(tables: Path) -> None:
    assert open_texts(tables, columns=["meta.by"]).read().rows == [("Ann",)]
    with pytest.raises(UserError, match=r"a\.csv: no column 'nope'"):
        open_texts(tables, columns=["nope"]).read()


@pytest.mark.parametrize(
    ("train", "other"),
    [("train.csv", "test.csv"), ("train-00000-of-1.csv", "validation-00000-of-1.csv"), ("train/a.csv", "dev/a.csv")],
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


def test_lines_of_several_files_cannot_be_skipped(tables: Path) -> None:
    with pytest.raises(UserError, match="lines of several files have no common numbers"):
        open_texts(tables, skip_lines=[1]).read()


def test_encode_and_index_hold_the_same_texts(opencse: Run, tables: Path, tmp_path: Path) -> None:
    code, out, err = opencse("encode", "opencse-mini", tables, "--out", "-")
    assert code == 0, err
    assert [json.loads(line)["text"] for line in out.splitlines()] == TEXTS
    assert "left out   1 file without the columns" in err
    code, _, err = opencse("index", "build", tmp_path / "ix", "opencse-mini", tables)
    assert code == 0, err
    code, out, err = opencse("index", "query", tmp_path / "ix", "snow", "-k", 20)
    assert code == 0, err
    assert sorted(line.split("\t")[-1] for line in out.splitlines()[1:]) == sorted(TEXTS)
    refused(opencse("encode", "opencse-mini", tables, "--column", "nope", "--out", tmp_path / "w.npy"), "'nope'")
