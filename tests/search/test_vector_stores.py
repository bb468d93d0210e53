"""Exports, read back through the clients of the stores."""

from __future__ import annotations

from pathlib import Path

import pytest

import opencse
from opencse.errors import UserError
from opencse.search.index import Index
from postgres import binaries, server

pytestmark = pytest.mark.slow


@pytest.fixture
def exported(index: Index) -> Index:
    index.delete(["n1"])
    index.add([{"text": "New.", "id": "new", "kind": "late", "any": "text"}, {"text": "Newer.", "any": 2}])
    return index


def nearest(index: Index, k: int = 3) -> list[str]:
    return [hit.id for hit in index.search(index.vectors(["n3"]), k)[0]]


def test_qdrant(exported: Index, tmp_path: Path) -> None:
    client = pytest.importorskip("qdrant_client")
    done = opencse.export_index(exported.folder, "qdrant", str(tmp_path / "q"), name="texts")
    assert done.rows == 6
    opened = client.QdrantClient(path=str(tmp_path / "q"))
    try:
        points = opened.query_points("texts", query=exported.vectors(["n3"])[0].tolist(), limit=3).points
        assert [point.payload["id"] for point in points] == nearest(exported)
        assert points[0].score == pytest.approx(1, abs=1e-6)
        assert points[0].payload["text"] == "The train is late again."
        assert points[0].payload["length"] == 24
    finally:
        opened.close()
    with pytest.raises(UserError, match="a collection 'texts' exists already"):
        opencse.export_index(exported.folder, "qdrant", str(tmp_path / "q"), name="texts")


def test_lancedb(exported: Index, tmp_path: Path) -> None:
    lancedb = pytest.importorskip("lancedb")
    assert opencse.export_index(exported.folder, "lancedb", str(tmp_path / "l")).rows == 6
    table = lancedb.connect(str(tmp_path / "l")).open_table("opencse")
    found = table.search(exported.vectors(["n3"])[0]).distance_type("cosine").limit(3).to_list()
    assert [row["id"] for row in found] == nearest(exported)
    rows = {row["id"]: row for row in table.to_arrow().to_pylist()}
    assert rows["n0"]["length"] == 13
    assert (rows["new"]["kind"], rows["new"]["any"], rows["0"]["any"]) == ("late", "text", "2")
    with pytest.raises(UserError, match="a table 'opencse' exists already"):
        opencse.export_index(exported.folder, "lancedb", str(tmp_path / "l"))


def test_pgvector(exported: Index) -> None:
    psycopg = pytest.importorskip("psycopg")
    programs = binaries()
    if programs is None:
        pytest.skip("no PostgreSQL with pgvector here")
    with server(programs) as target:
        done = opencse.export_index(exported.folder, "pgvector", target, name="texts")
        assert (done.rows, done.name) == (6, "texts")
        with psycopg.connect(target) as connection:
            own = str(exported.vectors(["n3"])[0].tolist())
            found = connection.execute(
                "SELECT id, text, 1 - (embedding <=> %s::vector) FROM texts ORDER BY embedding <=> %s::vector, place",
                [own, own],
            ).fetchall()
            assert [name for name, *_ in found[:3]] == nearest(exported)
            assert found[0][1] == "The train is late again."
            hits = exported.search(exported.vectors(["n3"]), 6)[0]
            cosines = {name: hit.score for hit in hits for name in (hit.id, *hit.copies)}
            assert {name: score for name, _, score in found} == pytest.approx(cosines, abs=1e-5)
            rows = connection.execute('SELECT id, length, kind, "any" FROM texts ORDER BY place').fetchall()
            assert [row[0] for row in rows] == [hit.id for hit in exported.rows()]
            assert rows[0] == ("n0", 13.0, None, None)
            assert ("new", None, "late", "text") in rows
            connection.execute("CREATE INDEX ON texts USING hnsw (embedding vector_cosine_ops)")
        with pytest.raises(UserError, match=r'pgvector refused .*"texts" already exists'):
            opencse.export_index(exported.folder, "pgvector", target, name="texts")
        with psycopg.connect(target) as connection:  # nothing of what was refused is there
            assert connection.execute("SELECT count(*) FROM texts").fetchone() == (6,)


def test_failed_exports_are_reported_in_one_line(exported: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="unknown store 'qdrnt'"):
        opencse.export_index(exported.folder, "qdrnt", "x")
    with pytest.raises(UserError, match="letters, digits and underscores"):
        opencse.export_index(exported.folder, "qdrant", "x", name="a; drop")
    with pytest.raises(UserError, match="is a file; choose another target"):
        opencse.export_index(exported.folder, "qdrant", __file__)
    pytest.importorskip("psycopg")
    with pytest.raises(UserError, match="pgvector refused"):
        opencse.export_index(exported.folder, "pgvector", "host=127.0.0.1 port=1 connect_timeout=2")
    for target in (
        "postgresql://anna:s3cret@127.0.0.1:1/texts?connect_timeout=2",
        "postgresql://anna:pa@s3cret@127.0.0.1:1/texts?connect_timeout=2",
        "host=127.0.0.1 port=1 connect_timeout=2 password=s3cret",
        "host=127.0.0.1 port=s3cret password=s3cret",
    ):
        with pytest.raises(UserError, match="pgvector refused") as refused:
            opencse.export_index(exported.folder, "pgvector", target)
        assert "s3cret" not in str(refused.value)
    monkeypatch.setitem(__import__("sys").modules, "lancedb", None)
    with pytest.raises(UserError, match="pip install lancedb"):
        opencse.export_index(exported.folder, "lancedb", "x")
