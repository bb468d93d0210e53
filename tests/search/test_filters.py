"""Conditions on metadata: what they mean, and which are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas  # type: ignore[import-untyped]
import pytest

import opencse
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.search.filters import parse_where
from opencse.search.index import Index
from opencse.search.row_sources import FileRows
from opencse.search.rows import IndexRow
from opencse.text.documents import Collection

COLUMNS = {"n": "number", "t": "text", "m": "mixed", "e": ""}


@pytest.mark.parametrize(
    ("typed", "where"),
    [
        (["n==5"], {"n": {"=": 5}}),
        (["n = 5"], {"n": {"=": 5}}),
        (["n=5,6.5"], {"n": {"=": [5, 6.5]}}),
        (["n>=-1e3", "n<2"], {"n": {">=": -1000.0, "<": 2}}),
        (["n="], {"n": {"=": None}}),
        (["t==5"], {"t": {"=": "5"}}),
        (["t=nan"], {"t": {"=": "nan"}}),
        (['t=["=5", "a,b"]'], {"t": {"=": ["=5", "a,b"]}}),
        (["m=nan"], {"m": {"=": "nan"}}),
        (["m=5"], {"m": {"=": 5}}),
        (["e=5"], {"e": {"=": 5}}),
    ],
)
def test_typed_conditions(typed: list[str], where: dict[str, object]) -> None:
    assert parse_where(typed, COLUMNS) == where


def read(file: Path) -> FileRows:
    return FileRows(Collection(str(file), ("text",), metadata=("n",)))


NO_NUMBERS = ("nan", "-NaN", "inf", "-Infinity", "1e999", "five", "5.0.1", "1_000", "0x10", "٣", "5;", "9" * 5000)


@pytest.mark.parametrize("operator", ["=", "==", "!=", "<", ">="])
@pytest.mark.parametrize("value", NO_NUMBERS)
def test_values_that_are_no_numbers_are_refused_for_a_column_of_numbers(operator: str, value: str) -> None:
    with pytest.raises(UserError, match=r"the column holds numbers, and '.*' is none") as caught:
        parse_where([f"n{operator}{value}"], COLUMNS)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "condition",
    ["n", "=5", "n=>5", "colour=5", "n=[", 'n={"a": 1}', "n=" + "[" * 100_000, "t=[" * 3, "x" * 9_000 + "=1"],
)
def test_invalid_conditions_are_refused_in_one_short_line(condition: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_where([condition], COLUMNS)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "condition", ["n=nan", "n!=inf", "n>1e999", "n=x", "n=[NaN]", 'n=["x"]', "n=[[[1]]]", "n=[1e999]"]
)
def test_no_command_takes_a_value_that_the_column_cannot_hold(
    index: Index, condition: str, tmp_path: Path, mini: SentenceEncoder
) -> None:
    rows = [IndexRow("One.", None, {"n": 1}), IndexRow("Two.", None, {"n": None})]
    Index.build(tmp_path / "i", rows, mini, model="opencse-mini")
    with pytest.raises(UserError):
        opencse.delete_from_index(tmp_path / "i", where=parse_where([condition], {"n": "number"}))
    with pytest.raises(UserError):
        opencse.query_index(tmp_path / "i", ["one"], where=parse_where([condition], {"n": "number"}), model=mini)
    assert opencse.index_info(tmp_path / "i").rows == 2


@pytest.mark.parametrize("value", [float("inf"), float("-inf")])
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", "given"])
def test_infinity_in_metadata_is_refused_with_its_row(
    tmp_path: Path, mini: SentenceEncoder, value: float, suffix: str, index: Index
) -> None:
    rows = [{"text": "One.", "n": 1.5}, {"text": "Two.", "n": value}, {"text": "Three.", "n": 2}]
    file = tmp_path / f"a{suffix}"
    if suffix == ".csv":
        file.write_text("text,n\n" + "".join(f"{row['text']},{row['n']}\n" for row in rows), encoding="utf-8")
    elif suffix == ".jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    where = r"rows\[1\]" if suffix == "given" else rf"a{suffix}, line {3 if suffix == '.csv' else 2}"
    with pytest.raises(UserError, match=rf"{where}: column 'n' holds .*; leave the value empty"):
        Index.build(tmp_path / "i", rows if suffix == "given" else read(file), mini)
    before = index.rows()
    with pytest.raises(UserError, match=r"rows\[1\]: column 'n' holds .*; leave the value empty"):
        index.add(rows)
    assert index.rows() == before
    assert not (tmp_path / "i" / "index.json").exists()


def test_nan_is_an_empty_value_in_memory_and_no_number_in_files(tmp_path: Path, mini: SentenceEncoder) -> None:
    """Pandas has nan, NaT and NA for an empty cell."""
    (tmp_path / "a.csv").write_text("text,n\nOne.,1.5\nTwo.,nan\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"a\.csv, line 3: column 'n' holds nan among numbers; leave the value empty"):
        Index.build(tmp_path / "i", read(tmp_path / "a.csv"), mini)
    missing = [float("nan"), None, pandas.NaT, pandas.NA, np.float32("nan")]
    rows = [{"text": "One.", "n": 1.5}, *({"text": f"Text {n}.", "n": value} for n, value in enumerate(missing))]
    with Index.build(tmp_path / "i", rows, mini) as index:
        assert [hit.metadata["n"] for hit in index.rows()] == [1.5, *[None] * len(missing)]
        assert index.info().columns == {"n": "number"}
    (tmp_path / "a.jsonl").write_text('{"text": "One.", "n": NaN}\n{"text": "Two.", "n": 2}\n', encoding="utf-8")
    with pytest.raises(UserError, match="column 'n' holds nan, which is no number; leave the value empty"):
        Index.build(tmp_path / "j", read(tmp_path / "a.jsonl"), mini)  # JSON has null for it


def test_nan_among_texts_is_a_text(tmp_path: Path, mini: SentenceEncoder) -> None:
    (tmp_path / "a.csv").write_text("text,name\nOne.,Nan\nTwo.,Anna\nThree.,7\n", encoding="utf-8")
    opencse.build_index(tmp_path / "i", mini, tmp_path / "a.csv", fields=["text"], metadata=["name"])
    assert opencse.index_info(tmp_path / "i").columns == {"name": "text"}


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_an_id_that_occurs_twice_in_a_file_is_refused_with_both_lines(
    tmp_path: Path, mini: SentenceEncoder, suffix: str
) -> None:
    rows = [{"_id": "a", "text": "One."}, {"_id": "b", "text": "Two."}, {"_id": "a", "text": "Three."}]
    file = tmp_path / f"x{{}}{suffix}"
    if suffix == ".csv":
        file.write_text("_id,text\n" + "".join(f"{row['_id']},{row['text']}\n" for row in rows), encoding="utf-8")
    else:
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with pytest.raises(UserError, match=r"x\{\}\.\w+, line \d: the id 'a' is also that of .*, line \d"):
        opencse.build_index(tmp_path / "i", mini, file, fields=["text"], ids="_id")
