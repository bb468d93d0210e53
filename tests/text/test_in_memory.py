"""What counts as a list of texts, over all functions that take one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas  # type: ignore[import-untyped]
import pytest

import opencse
from opencse.errors import UserError
from opencse.text.documents import documents_in_memory
from opencse.text.in_memory import as_list, is_missing, rows_of, some_of

TEXTS = [
    "A kettle boils water. It has a lid. Steam comes out.",
    "Snow fell on the hills. It was cold. Children played.",
    "Trains run late. People wait. It rains.",
]


@pytest.mark.parametrize("texts", [{"a"}, {"a": 1}, b"a", 3, np.zeros((2, 2))])
def test_values_without_texts_in_an_order_are_refused(texts: Any) -> None:
    with pytest.raises(UserError, match="a list of strings is expected"):
        as_list(texts)
    with pytest.raises(TypeError, match="text is a list, not "):
        rows_of(texts, "text is a list")


def test_other_iterables_become_lists() -> None:
    assert as_list(text for text in ("a", "b")) == as_list(np.array(["a", "b"])) == ["a", "b"]
    assert rows_of(("a", "b"), "text") == rows_of(np.array(["a", "b"]), "text") == ["a", "b"]


@pytest.mark.parametrize("texts", ["a text", [], np.array([], dtype=str)])
def test_at_least_one_is_needed_in_a_list(texts: Any) -> None:
    with pytest.raises(UserError, match="give one"):
        some_of(texts, "give one")
    assert some_of(np.array(["a"]), "give one") == ["a"]


def test_what_can_be_read_once_alone_is_no_list() -> None:
    with pytest.raises(TypeError, match="text is a list, not generator"):
        rows_of((text for text in TEXTS), "text is a list")
    with pytest.raises(TypeError, match="text is a list, not str"):
        rows_of("a text", "text is a list")


def columns() -> list[Any]:
    """The texts as libraries hold them."""
    pandas = pytest.importorskip("pandas")
    return [pandas.Series(TEXTS, index=[5, 3, 4]), np.array(TEXTS), np.array(TEXTS, dtype=object)]


CALLS: dict[str, Callable[[Any, Path], Any]] = {
    "adapt": lambda texts, out: opencse.adapt(texts, out / "a", dev=None, dry_run=True).verdict,
    "train": lambda texts, out: opencse.train(texts, out / "t", dev=None, dry_run=True).verdict,
    "check": lambda texts, out: opencse.check(texts).model_dump(),
    "encode": lambda texts, out: opencse.encode("opencse-mini", texts).tolist(),
    "nearest": lambda texts, out: opencse.nearest("opencse-mini", texts, TEXTS).queries,
    "nearest in": lambda texts, out: opencse.nearest("opencse-mini", TEXTS, texts).queries,
    "similarity": lambda texts, out: opencse.similarity("opencse-mini", TEXTS[0], texts),
    "query_index": lambda texts, out: opencse.query_index(index(out), texts),
}


def index(out: Path) -> Path:
    """An index of the texts."""
    if not (out / "index").exists():
        opencse.build_index(out / "index", "opencse-mini", TEXTS)
    return out / "index"


@pytest.mark.parametrize("name", CALLS)
def test_a_column_is_read_as_the_list_of_its_texts(name: str, tmp_path: Path) -> None:
    expected = CALLS[name](TEXTS, tmp_path)
    for texts in columns():
        assert CALLS[name](texts, tmp_path) == expected, type(texts)


@pytest.mark.parametrize("name", ["adapt", "train", "check", "encode"])
def test_a_table_is_refused_with_the_way_to_its_texts(name: str, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(TypeError, match="not DataFrame; of a table give a column, or its rows as tuples"):
        CALLS[name](pandas.DataFrame({"title": TEXTS, "text": TEXTS}), tmp_path)


MISSING = [None, float("nan"), np.float32("nan"), pandas.NaT, pandas.NA]


def test_what_pandas_has_for_an_empty_cell_is_missing() -> None:
    assert all(map(is_missing, MISSING))
    assert not any(map(is_missing, ("", "nan", 0, False, [], (None,), np.zeros(2), pandas.Timestamp(0), {})))


@pytest.mark.parametrize("value", MISSING)
def test_a_missing_text_is_called_empty_in_every_list(value: Any, tmp_path: Path) -> None:
    encoder = opencse.load("opencse-mini", device="cpu")
    for use in (
        lambda: encoder.encode(["One.", value]),
        lambda: opencse.train(["One.", value], tmp_path / "out"),
        lambda: opencse.train([("One.", "Two."), ("Three.", value)], tmp_path / "out", recipe="simcse-supervised"),
        lambda: opencse.Index.build(tmp_path / "i", ["One.", value], encoder),
        lambda: opencse.Index.build(tmp_path / "i", [{"text": value}], encoder),
    ):
        with pytest.raises(UserError, match="is empty"):
            use()


@pytest.mark.parametrize("value", MISSING)
def test_documents_without_a_text_are_left_out_as_those_of_a_table(value: Any) -> None:
    documents = documents_in_memory([value, (value, "A text."), ("A title", value), (value, value)])
    assert [document.body for document in documents] == ["A text.", "A title"]
