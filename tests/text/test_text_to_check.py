"""How a text is read to check it, and which command suits it."""

from __future__ import annotations

from pathlib import Path

import pytest

from opencse.text.documents import read_documents
from opencse.text.text_to_check import read_to_check


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "4\tThe pump leaks\tThe pump drips\n0\tThe pump leaks\tIt rains\n"),
        ("a.csv", "sentence1,sentence2,score\nThe pump leaks.,The pump drips.,4\nThe pump leaks.,It rains.,0\n"),
        ("a.jsonl", '{"anchor": "A", "positive": "B", "score": 1}\n{"anchor": "C", "positive": "D", "score": 0.5}\n'),
    ],
)
def test_pairs_with_a_score_are_rows_for_a_recipe_of_scores(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    read = read_to_check(str(tmp_path / name))
    assert (read.texts.width, len(read.texts.rows)) == (2, 2)
    assert "--recipe cosent" in read.command
    assert "pairs with a score" in read.read_as[0]


@pytest.mark.parametrize(
    "content",
    [
        "premise,hypothesis,label\nThe pump leaks.,Water drips.,0\nThe pump leaks.,It rains.,2\n",
        "anchor,positive,negative,score\nThe pump leaks.,Water drips.,It rains.,3\nA cat.,A kitten.,A dog.,1\n",
        "anchor,positive\nThe pump leaks.,Water drips.\nA cat.,A kitten.\n",
    ],
)
def test_classes_and_triples_are_no_scores(content: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(content)
    assert "cosent" not in read_to_check(str(tmp_path / "a.csv")).command


def test_a_folder_of_tables_is_read_as_adapt_reads_it(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("Title;Text\nKettles;Fill it. Switch it on.\n")
    (tmp_path / "c.xlsx").write_text("something")
    read = read_to_check(str(tmp_path))
    assert read.texts.documents == [0, 0, 1, 1]
    assert [row[0] for row in read.texts.rows] == [one for doc in read_documents(tmp_path) for one in doc.sentences]
    assert read.command == f"opencse adapt {tmp_path} --out adapted"
    assert [line.partition(";")[0] for line in read.read_as] == [
        "read as a table (separated by semicolons), UTF-8",
        "left out 1 file of a kind that is not read (.xlsx",
    ]


def test_a_folder_of_pairs_is_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("anchor,positive\nThe pump leaks.,Water drips.\nA cat.,A kitten.\n")
    read = read_to_check(str(tmp_path))
    assert (read.texts.width, len(read.texts.rows)) == (2, 2)
    assert read.command.startswith("opencse train ")
