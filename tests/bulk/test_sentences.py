"""Vectors of documents come with the document and the text of each."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

import opencse
from helpers import Heard
from opencse.bulk.sentences import sentences_file
from opencse.errors import UserError

EXPECTED = [
    {"id": "a.md#kettles", "text": "Fill it."},
    {"id": "a.md#kettles", "text": "Switch it on."},
    {"id": "b.txt", "text": "Snow fell all night."},
]


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "a.md").write_text("# Kettles\n\nFill it. Switch it on.\n", encoding="utf-8")
    (folder / "b.txt").write_text("Snow fell all night.\n", encoding="utf-8")
    return folder


def lines(file: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(("out", "named"), [("v.npy", "v.sentences.jsonl"), ("v.2", "v.2/sentences.jsonl")])
def test_a_file_and_a_folder_have_the_document_of_each_vector(
    documents: Path, tmp_path: Path, out: str, named: str
) -> None:
    heard = Heard()
    written = opencse.encode("opencse-mini", documents, tmp_path / out, device="cpu", progress=heard)
    assert sentences_file(tmp_path / out) == tmp_path / named
    assert lines(tmp_path / named) == EXPECTED
    assert written.rows == len(EXPECTED)
    vectors = np.load(tmp_path / out if out.endswith(".npy") else tmp_path / out / "part-00000.npy")
    np.testing.assert_allclose(vectors[2], opencse.load("opencse-mini").encode(EXPECTED[2]["text"]), atol=1e-6)
    assert f"sentences  {tmp_path / named}: the id of the document and the text of each vector" in heard.said
    if not out.endswith(".npy"):  # a folder is continued, and is complete already
        assert opencse.encode("opencse-mini", documents, tmp_path / out, device="cpu").rows == len(EXPECTED)


def test_json_lines_have_the_document_too(documents: Path) -> None:
    stream = io.StringIO()
    opencse.encode("opencse-mini", documents, stream, device="cpu")
    written = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [{"id": one["id"], "text": one["text"]} for one in written] == EXPECTED


def test_documents_without_ids_are_numbered_as_in_an_index(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("title,text\nKettles,Fill it.\n,\nSnow,It fell.\n", encoding="utf-8")
    opencse.encode("opencse-mini", path, tmp_path / "v.npy", fields=["title", "text"], device="cpu")
    assert [one["id"] for one in lines(tmp_path / "v.sentences.jsonl")] == ["0", "1"]


def test_a_file_of_another_is_not_replaced(documents: Path, tmp_path: Path) -> None:
    (tmp_path / "v.sentences.jsonl").write_text("mine\n", encoding="utf-8")
    for overwrite in (False, True):
        with pytest.raises(UserError, match=r"v\.sentences\.jsonl"):
            opencse.encode("opencse-mini", documents, tmp_path / "v.npy", device="cpu", overwrite=overwrite)
    assert not (tmp_path / "v.npy").exists()


def test_rows_of_a_table_have_the_numbers_of_their_vectors(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("text\nKettles.\n", encoding="utf-8")
    opencse.encode("opencse-mini", path, tmp_path / "v.npy", device="cpu")
    assert not (tmp_path / "v.sentences.jsonl").exists()
