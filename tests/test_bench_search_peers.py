"""opencse's searches compared with FAISS's, by benchmarks/search_peers.py."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opencse.ranking import nearest_prepared

pytest.importorskip("faiss")
pytest.importorskip("threadpoolctl")
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("search_peers")


def test_vectors_are_clustered_and_the_same_for_a_seed(peers: Any, tmp_path: Path) -> None:
    vectors, queries = peers.clustered(tmp_path / "a", 1_000, 16, seed=3)
    again, _ = peers.clustered(tmp_path / "b", 1_000, 16, seed=3)
    assert vectors.shape == (1_000, 16)
    assert np.array_equal(vectors, again)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)
    similar = np.sort(queries @ vectors.T, axis=1)[:, ::-1]
    assert similar[:, 10].mean() > similar[:, 300].mean() + 0.3


@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivfpq"])
def test_both_sides_search_the_same(peers: Any, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opencse.search.approximate.FEWEST", 256)
    vectors, queries = peers.clustered(tmp_path / "vectors", 600, 16, seed=0)
    exact, _ = nearest_prepared(queries, vectors, 10)
    row = peers.measured(kind, vectors, queries, exact, breadth=40, turns=1, seconds=60)
    ours, other = row["recall"]["opencse"], row["recall"]["faiss"]
    assert ours == other == 1 if kind == "flat" else 0.6 < other <= ours + 0.05
    assert row["breadth_build"] == (40 if kind == "hnsw" else None)
    assert row["bytes"]["opencse"] >= vectors.nbytes
    assert (row["bytes"]["faiss"] > vectors.nbytes) == (kind != "flat")
    assert row["one"]["ours"] > 0
    assert row["together"]["peer"] > 0
    cells = peers.table([{"rows": [row]}]).splitlines()[2].split(" | ")
    assert cells[0] == "| 600"


def test_a_record_gets_more_rows(
    peers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "record.json"
    for kind, rows in (("hnsw", "300"), ("flat", "300"), ("flat", "200"), ("flat", "300")):
        words = ["--rows", rows, "--kinds", kind, "--dimension", "8", "--turns", "1", "--json", str(record)]
        monkeypatch.setattr(sys, "argv", ["search_peers.py", *words])
        peers.main()
    made = [(row["rows"], row["kind"]) for row in json.loads(record.read_text())["rows"]]
    assert made == [(200, "flat"), (300, "flat"), (300, "hnsw")]
    assert capsys.readouterr().out.splitlines()[-1].startswith("| 300 | hnsw | ")
