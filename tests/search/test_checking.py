"""The check of an index, which reads every file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import opencse as public
from helpers import Run
from opencse.encoder.encoder import SentenceEncoder
from opencse.progress import Silent
from opencse.search.building import BuildSettings
from opencse.search.checking import check
from opencse.search.index import Index
from search_texts import TEXTS


def test_an_intact_index(index: Index, opencse: Run, tmp_path: Path) -> None:
    index.delete(["n1"])
    index.search(["cat"], hybrid=True)
    result = check(index.folder, Silent())
    assert (result.rows, result.faults, result.notes) == (4, (), ())
    code, out, _ = opencse("index", "check", index.folder, "--json", tmp_path / "c.json")
    assert (code, out) == (0, f"{index.folder}: intact, 4 rows\n")
    assert json.loads((tmp_path / "c.json").read_text())["faults"] == []
    assert opencse("index", "check", tmp_path / "nowhere")[0] == 2


def test_each_missing_or_damaged_file_is_named(index: Index, opencse: Run) -> None:
    index.search(["cat"], hybrid=True)
    (vectors,), (words,) = index.folder.glob("vectors-*"), index.folder.glob("words-*")
    next(words.glob("*.json")).write_text("{}")
    assert [fault.split(":")[0] for fault in check(index.folder, Silent()).faults] == [words.name]
    content = vectors.read_bytes()
    vectors.write_bytes(content[:-4])
    assert any(fault.startswith(f"{vectors.name}: has ") for fault in check(index.folder, Silent()).faults)
    vectors.write_bytes(bytes(len(content)))
    code, out, _ = opencse("index", "check", index.folder)
    assert code == 1
    assert "rows 0 to 4 are not as they were written" in out


def test_a_missing_approximate_index_is_named(tmp_path: Path, mini: SentenceEncoder) -> None:
    pytest.importorskip("faiss")
    Index.build(tmp_path / "i", TEXTS, mini, how=BuildSettings(kind="hnsw")).close()
    (file,) = (tmp_path / "i").glob("engine-*.faiss")
    file.unlink()
    assert public.check_index(tmp_path / "i").faults == (f"{file.name}: is missing",)
