"""Conditions on metadata: what they mean, and which are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas  # type: ignore[import-untyped]
import pytest

import opencse
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.search.filters import parse_where
from opencse.search.index import Index
from opencse.search.rows import FileRows
from opencse.text.documents import Collection

COLUMNS = {"n": "number", "t": "text", "m": "mixed", "e": ""}


def test_typed_conditions() -> None:
    for typed, where in (
        (["n==5"], {"n": {"=": 5}}),
        (["n = 5"], {"n": {"=": 5}}),
        (["n=5,6.5"], {"n": {"=": [5, 6.5]}}),
        (["n>=-1e3", "n<2"], {"n": {">=": -1000.0, "<": 2}}),
        (["n="], {"n": {"=": None}}),
        (["t==5"], {"t": {"=": "5"}}),
        (['t=["=5", "a,b"]'], {"t": {"=": ["=5", "a,b"]}}),
        (["m=nan"], {"m": {"=": "nan"}}),
        (["m=5"], {"m": {"=": 5}}),
        (["e=5"], {"e": {"=": 5}}),
    ):
        assert parse_where(typed, COLUMNS) == where


def read(file: Path) -> FileRows:
    return FileRows(Collection(str(file), ("text",), metadata=("n",)))


def test_nan_is_an_empty_value_in_memory_and_tables_and_no_number_in_json(
    tmp_path: Path, mini: SentenceEncoder
) -> None:
    """Pandas has nan, NaT and NA for an empty cell."""
    (tmp_path / "a.csv").write_text("text,n\nOne.,1.5\nTwo.,nan\n", encoding="utf-8")
    with Index.build(tmp_path / "t", read(tmp_path / "a.csv"), mini) as index:
        assert [hit.metadata["n"] for hit in index.rows()] == [1.5, None]
    missing = [float("nan"), None, pandas.NaT, pandas.NA, np.float32("nan")]
    rows = [{"text": "One.", "n": 1.5}, *({"text": f"Text {n}.", "n": value} for n, value in enumerate(missing))]
    with Index.build(tmp_path / "i", rows, mini) as index:
        assert [hit.metadata["n"] for hit in index.rows()] == [1.5, *[None] * len(missing)]
        assert index.info().columns == {"n": "number"}
    (tmp_path / "a.jsonl").write_text('{"text": "One.", "n": NaN}\n{"text": "Two.", "n": 2}\n', encoding="utf-8")
    with pytest.raises(UserError, match="column 'n' holds nan, which is no number; leave the value empty"):
        Index.build(tmp_path / "j", read(tmp_path / "a.jsonl"), mini)  # JSON has null for it


def test_an_id_that_occurs_twice_in_a_file_is_refused_with_both_lines(tmp_path: Path, mini: SentenceEncoder) -> None:
    (tmp_path / "x{}.csv").write_text("_id,text\na,One.\nb,Two.\na,Three.\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"x\{\}\.\w+, line \d: the id 'a' is also that of .*, line \d"):
        opencse.build_index(tmp_path / "i", mini, tmp_path / "x{}.csv", fields=["text"], ids="_id")


def test_invalid_conditions_are_refused_in_one_short_line() -> None:
    no_numbers = ("nan", "-Infinity", "1e999", "five", "1_000", "٣", "9" * 5000)
    invalid = ["n", "=5", "n=>5", "colour=5", "n=[", 'n={"a": 1}', "n=" + "[" * 100_000]
    for condition in (*invalid, *(f"n{operator}{value}" for operator in ("=", "<") for value in no_numbers)):
        with pytest.raises(UserError) as caught:
            parse_where([condition], COLUMNS)
        assert len(str(caught.value)) < 400
