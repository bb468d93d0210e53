from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from opencse.bulk.shards import MANIFEST, Shard, Shards, require_format, require_own, write_shard
from opencse.errors import UserError

IDENTITY = {"rows": 5, "model": "m", "shard_rows": 2, "format": "npy"}


def vectors(rows: int) -> NDArray[np.float32]:
    return np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)


def written(shards: Shards, number: int) -> Shard:
    start = 2 * number
    shard = write_shard(shards.path(number), start, vectors(5)[start : start + 2])
    shards.add(number, shard)
    return shard


def test_the_manifest_lists_the_files_when_all_are_written(tmp_path: Path) -> None:
    with Shards.open(tmp_path / "out", IDENTITY, print) as shards:
        assert (shards.count, shards.rows, shards.is_complete) == (3, 0, False)
        listed = [written(shards, number) for number in (0, 2, 1)]
        shards.finish()
        assert shards.is_complete
    manifest = json.loads((tmp_path / "out" / MANIFEST).read_text())
    assert [shard["file"] for shard in manifest["shards"]] == [f"part-0000{number}.npy" for number in range(3)]
    assert sum(shard.rows for shard in listed) == manifest["rows"] == 5
    assert np.array_equal(np.load(tmp_path / "out" / "part-00001.npy"), vectors(5)[2:4])


def test_finished_files_are_kept_and_changed_ones_are_not(tmp_path: Path) -> None:
    with Shards.open(tmp_path / "out", IDENTITY, print) as shards:
        written(shards, 0)
        written(shards, 2)
    lines: list[str] = []
    with Shards.open(tmp_path / "out", IDENTITY, lines.append) as shards:
        assert (sorted(shards.done), shards.rows) == ([0, 2], 3)
        shards.path(2).write_bytes(b"changed")
    assert lines == [f"{tmp_path / 'out'}: continues after 3 of 5 texts"]
    with Shards.open(tmp_path / "out", IDENTITY, print) as shards:
        assert sorted(shards.done) == [0]


def test_another_identity_is_refused(tmp_path: Path) -> None:
    with Shards.open(tmp_path / "out", IDENTITY, print) as shards:
        written(shards, 0)
    with (
        pytest.raises(UserError, match=r"was begun with another model \(m, now n\)"),
        Shards.open(tmp_path / "out", {**IDENTITY, "model": "n"}, print),
    ):
        pass


def test_a_folder_of_other_files_is_refused(tmp_path: Path) -> None:
    require_own(tmp_path)
    (tmp_path / "novel.txt").touch()
    with pytest.raises(UserError, match="is not empty"):
        require_own(tmp_path)


def test_rows_of_parquet_are_numbered_over_all_files(tmp_path: Path) -> None:
    import pyarrow.parquet

    shard = write_shard(tmp_path / "part.parquet", 7, vectors(2))
    table = pyarrow.parquet.read_table(tmp_path / "part.parquet")
    assert table.column("row").to_pylist() == [7, 8]
    assert table.column("vector").to_pylist() == vectors(2).tolist()
    assert (shard.start, shard.rows, shard.bytes) == (7, 2, (tmp_path / "part.parquet").stat().st_size)


def test_an_unknown_format_is_refused() -> None:
    require_format("npy")
    with pytest.raises(UserError, match="unknown format 'csv'"):
        require_format("csv")
