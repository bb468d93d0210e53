"""Lists of texts are lines, or the column of a table that is called like one; no option is needed or advised."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import Run
from opencse.errors import UserError
from opencse.text.lists import read_list

TEXTS = ["how to boil water", "late trains"]
ID_FIRST = "id\tquery\n7\thow to boil water\n9\tlate trains\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "how to boil water\nlate trains\n"),
        ("a.tsv", ID_FIRST),
        ("a.csv", "Question;Anzahl\nhow to boil water;3\nlate trains;4\n"),
        ("a.jsonl", '{"_id": 1, "text": "how to boil water"}\n{"_id": 2, "text": "late trains"}\n'),
        ("b.csv", "text,query\nan answer,how to boil water\nanother answer,late trains\n"),
    ],
)
def test_the_column_of_texts_is_found(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    assert read_list(str(path)) == TEXTS


@pytest.mark.parametrize("content", ["id\tFrage\n7\tWie?\n9\tWo?\n", "7\thow to boil water\n9\tlate trains\n"])
def test_other_tables_are_refused_without_advice_of_options(tmp_path: Path, content: str) -> None:
    path = tmp_path / "queries.tsv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=r"none of which is called query, .*one text per line") as refusal:
        read_list(str(path))
    assert "--" not in str(refusal.value)


@pytest.mark.parametrize(
    "arguments",
    [
        "index query index --queries queries.tsv",
        "nearest opencse-mini --corpus texts.txt --queries queries.tsv",
        "label index --queries queries.tsv --out labels",
        "questions texts.txt --endpoint http://localhost:9/v1 --model m --examples queries.tsv --dry-run",
    ],
)
def test_commands_that_read_a_list_name_no_option_for_its_columns(
    opencse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text("The kettle boils.\nThe train is late.\n")
    assert opencse("index", "build", "index", "opencse-mini", "texts.txt")[0] == 0
    Path("queries.tsv").write_text("id\tFrage\n7\tWie?\n")
    code, out, err = opencse(*arguments.split())
    assert (code, out) == (2, "")
    assert "queries.tsv: a table with the columns id, Frage, none of which is called query" in err
    assert "--columns" not in err
