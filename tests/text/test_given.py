"""Texts given in Python: read like a file of them, told apart by their content, refused by argument and place."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas  # type: ignore[import-untyped]
import pytest

import opencse
from opencse.errors import UserError
from opencse.text.documents import documents_in_memory
from opencse.text.given import as_documents, open_texts, read_list
from opencse.text.values import is_missing


def test_records_and_texts_of_a_list_are_documents_of_their_sentences(tmp_path: Path) -> None:
    texts = ["It boils. Steam comes out.", "Snow fell. It was cold."]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": one}) + "\n" for one in texts))
    (tmp_path / "a.csv").write_text("\n".join(["name,body", *(f"n,{one}" for one in texts)]))
    (tmp_path / "a.txt").write_text("\n".join(texts))
    for source in (
        open_texts(tmp_path / "a.jsonl"),
        open_texts(tmp_path / "a.csv", columns=["body"]),
        open_texts(texts),
    ):
        read = as_documents(source).read()
        assert read.documents == [0, 0, 1, 1]
        assert " ".join(row[0] for row in read.rows) == " ".join(texts)
    for unchanged in (open_texts(tmp_path / "a.txt"), open_texts(tmp_path / "a.csv", columns=["name", "body"])):
        assert as_documents(unchanged) is unchanged


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "text is a path, a Hub id, a Source or a list of texts, not NoneType"),
        (["a", 5], "text[1] is a text, or a tuple of two or three, not int '5'"),
        ([], "text: the list is empty"),
        (["a", " \n"], "text[1] is empty"),
        (["a", ("b", "c")], "text[1] has 2 texts, but text[0] has 1"),
    ],
)
def test_what_is_wrong_is_reported_with_its_position(given: object, message: str) -> None:
    with pytest.raises((TypeError, UserError), match=re.escape(message)):
        open_texts(given)


THREE_TEXTS = [
    "A kettle boils water. It has a lid. Steam comes out.",
    "Snow fell on the hills. It was cold. Children played.",
    "Trains run late. People wait. It rains.",
]


MISSING = [None, float("nan"), np.float32("nan"), pandas.NaT, pandas.NA]


CALLS: dict[str, Callable[[Any, Path], Any]] = {
    "adapt": lambda texts, out: opencse.adapt(texts, out / "a", model="opencse-mini", dev=None, dry_run=True).verdict,
    "train": lambda texts, out: opencse.train(texts, out / "t", dev=None, dry_run=True).verdict,
    "check": lambda texts, out: opencse.check(texts, model="opencse-mini").model_dump(),
    "encode": lambda texts, out: opencse.encode("opencse-mini", texts).tolist(),
    "nearest": lambda texts, out: opencse.nearest("opencse-mini", texts, texts).queries,
    "similarity": lambda texts, out: opencse.similarity("opencse-mini", THREE_TEXTS[0], texts),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.slow
def test_a_column_is_read_as_the_list_of_its_texts_and_a_table_is_refused(name: str, tmp_path: Path) -> None:
    expected = CALLS[name](THREE_TEXTS, tmp_path)
    for texts in (pandas.Series(THREE_TEXTS, index=[5, 3, 4]), np.array(THREE_TEXTS, dtype=object)):
        assert CALLS[name](texts, tmp_path) == expected, type(texts)
    if name in ("adapt", "train", "check", "encode"):
        with pytest.raises(TypeError, match="not DataFrame; of a table give a column, or its rows as tuples"):
            CALLS[name](pandas.DataFrame({"title": THREE_TEXTS, "text": THREE_TEXTS}), tmp_path)


def test_a_missing_text_is_called_empty_and_a_document_without_one_left_out(tmp_path: Path) -> None:
    encoder = opencse.load("opencse-mini", device="cpu")
    assert not any(map(is_missing, ("", "nan", 0, False, [], (None,), np.zeros(2), pandas.Timestamp(0), {})))
    for value in MISSING:
        assert is_missing(value)
        for use in (
            lambda value: encoder.encode(["One.", value]),
            lambda value: opencse.train(
                [("One.", "Two."), ("3.", value)], tmp_path / "out", recipe="simcse-supervised"
            ),
            lambda value: opencse.Index.build(tmp_path / "i", [{"text": value}], encoder),
        ):
            with pytest.raises(UserError, match="is empty"):
                use(value)
        documents = documents_in_memory([value, (value, "A text."), ("A title", value), (value, value)])
        assert [document.body for document in documents] == ["A text.", "A title"]


TEXTS = ["how to boil water", "late trains"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "how to boil water\nlate trains\n"),
        ("a.tsv", "id\tquery\n7\thow to boil water\n9\tlate trains\n"),
        ("a.csv", "Question;Anzahl\nhow to boil water;3\nlate trains;4\n"),
        ("b.csv", "text,query\nan answer,how to boil water\nanother answer,late trains\n"),
    ],
)
def test_the_column_of_texts_is_found(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    assert read_list(str(path)) == TEXTS
