"""Fields of structs in Parquet files, against the nested keys of the same records as JSON lines."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from opencse.errors import UserError
from opencse.text.documents import Collection
from opencse.text.readers import Source

RECORDS = [
    {"n": 1, "meta": {"title": "Kettles", "by": {"name": "Ann"}}, "a.b": "first", "body": {"text": "Fill it."}},
    {"n": 2, "meta": None, "a.b": "second", "body": {"text": "Switch it on."}},
    {"n": 3, "meta": {"title": "Snow", "by": None}, "a.b": "third", "body": {"text": "Snow fell."}},
]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    lines, parquet = tmp_path / "a.jsonl", tmp_path / "a.parquet"
    lines.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(RECORDS), parquet)
    return lines, parquet


@pytest.mark.parametrize("fields", [("meta.title", "body.text"), ("meta.by.name", "a.b"), ("body.text",)])
def test_documents_of_structs_are_those_of_nested_keys(files: tuple[Path, Path], fields: tuple[str, ...]) -> None:
    of_lines, of_parquet = (
        [(one.title, one.sentences) for one in Collection(str(file), fields).documents()] for file in files
    )
    assert of_parquet == of_lines
    assert len(of_parquet) == 3
    assert of_parquet[1][0] == ""


def test_rows_of_structs(files: tuple[Path, Path]) -> None:
    lines, parquet = (Source(str(file), ("a.b", "body.text")) for file in files)
    assert parquet.read().rows == lines.read().rows
    assert parquet.present() == ("n", "meta.title", "meta.by.name", "a.b", "body.text")


def test_a_field_that_is_not_there_is_named_with_those_that_are(files: tuple[Path, Path]) -> None:
    with pytest.raises(UserError, match=r"no column 'meta.titel' \(did you mean 'meta.title'\?\)"):
        Source(str(files[1]), ("meta.titel",)).read()


def test_fields_of_structs_in_a_data_set(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "data"
    folder.mkdir()
    files[1].rename(folder / "train.parquet")
    source = Source(str(folder), ("a.b", "body.text"), split="train")
    assert source.read().rows == Source(str(files[0]), ("a.b", "body.text")).read().rows
    assert "meta.title" in source.present()
