"""The check of an index, which reads every file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers import Run
from opencse.encoder.encoder import SentenceEncoder
from opencse.progress import Silent
from opencse.search.building import BuildSettings
from opencse.search.index import Index
from opencse.search.snapshots import check
from search_texts import TEXTS


def test_an_intact_index(index: Index, opencse: Run, tmp_path: Path) -> None:
    index.delete(["n1"])
    index.search(["cat"], hybrid=True)
    result = check(index.folder, Silent())
    assert (result.rows, result.faults) == (4, ())
    code, out, _ = opencse("index", "check", index.folder, "--json", tmp_path / "c.json")
    assert (code, out) == (0, f"{index.folder}: intact, 4 rows\n")
    assert json.loads((tmp_path / "c.json").read_text())["faults"] == []
    assert opencse("index", "check", tmp_path / "nowhere")[0] == 2


def test_a_changed_or_missing_approximate_index_is_named(tmp_path: Path, mini: SentenceEncoder) -> None:
    pytest.importorskip("faiss")
    Index.build(tmp_path / "i", TEXTS, mini, how=BuildSettings(kind="hnsw")).close()
    (file,) = (tmp_path / "i").glob("engine-*.faiss")
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert check(tmp_path / "i", Silent()).faults == (f"{file.name}: is not as it was written",)
    file.unlink()
    assert check(tmp_path / "i", Silent()).faults == (f"{file.name}: is missing",)
