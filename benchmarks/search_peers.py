"""opencse's searches compared with FAISS used directly, from ten thousand rows to a million.

    OMP_NUM_THREADS=2 python benchmarks/search_peers.py --rows 10000 100000 1000000 --json FILE

The vectors are random around random centres, a hundred rows to a centre, and vary less in later dimensions, as those of
texts do. Of vectors that are drawn uniformly the nearest ten are hardly nearer than thousands of others, so that no
approximate index finds them, and nobody would ask for them: recall on such vectors says nothing.

`flat` is compared with IndexFlatIP. An `hnsw` or `ivfpq` index of opencse is a FAISS index, so it is built once, on all
threads, and both search it with the same parameters: opencse by `ApproximateIndex.search`, FAISS by its own `search`,
for `ivfpq` with IndexRefineFlat, which scores the same candidates again by the true vectors. Both sides search on one
thread, one right after the other in each turn; a ratio is the median over the turns. The record is written after every
row, and rows that FILE has already stay in it, so that a run may be split by --rows and --kinds.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rows import machine, timed
from threadpoolctl import threadpool_limits

from opencse.environment import installed
from opencse.modules.similarity import Similarity, unit_rows
from opencse.ranking import nearest_prepared
from opencse.search.approximate import (
    BREADTH_BUILD,
    BREADTH_SEARCH,
    FEWEST,
    REFINED,
    ApproximateIndex,
    empty_index,
    probed_lists,
    require_faiss,
)

DEPTH = 10
KINDS = ("flat", "hnsw", "ivfpq")
HELD = 256
"""Queries, of which the recall is measured."""
TOGETHER = 64
_PER_CENTRE = 100
_BLOCK = 65_536
_SINGLES = {"flat": 4, "hnsw": 64, "ivfpq": 32}
"""Queries of a turn that are sent one by one."""
Search = Callable[[NDArray[np.float32]], NDArray[np.int64]]


def clustered(path: Path, rows: int, dimension: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Writes unit vectors (rows, dimension) to a file; they, memory-mapped as those of an index are, and queries."""
    random = np.random.default_rng(seed)
    scales = np.arange(1, dimension + 1, dtype=np.float32) ** -0.5
    centres = random.standard_normal((max(1, rows // _PER_CENTRE), dimension), dtype=np.float32)

    def drawn(count: int) -> NDArray[np.float32]:
        around = centres[random.integers(0, len(centres), count)]
        return unit_rows((around + random.standard_normal((count, dimension), dtype=np.float32)) * scales)

    with path.open("wb") as file:
        for start in range(0, rows, _BLOCK):
            file.write(drawn(min(_BLOCK, rows - start)).tobytes())
    return np.memmap(path, dtype="<f4", mode="r", shape=(rows, dimension)), drawn(HELD)


def both(kind: str, vectors: NDArray[np.float32], breadth: int) -> tuple[Search, Search, dict[str, Any]]:
    """The two sides' searches of a new index, and what it took to build: seconds and bytes."""
    faiss = require_faiss()
    rows, dimension = vectors.shape
    began = time.perf_counter()
    with threadpool_limits(os.cpu_count()):
        is_flat = kind == "flat"
        inner = faiss.IndexFlatIP(dimension) if is_flat else empty_index(faiss, kind, vectors, Similarity.COSINE)
        if kind == "hnsw":
            inner.hnsw.efConstruction = breadth
        for start in range(0, rows, _BLOCK):
            inner.add(np.ascontiguousarray(vectors[start : start + _BLOCK]))
    seconds = time.perf_counter() - began
    stored = vectors.nbytes
    sizes = {"flat": (stored, stored), "hnsw": (0, 0), "ivfpq": (stored, stored)}[kind]
    index = 0 if kind == "flat" else written(faiss, inner)
    told = {
        "build_seconds": seconds,
        "bytes": {"opencse": sizes[0] + index, "faiss": sizes[1] + index},
        "breadth_build": breadth if kind == "hnsw" else None,
    }
    if kind == "flat":
        return (
            lambda queries: nearest_prepared(queries, vectors, DEPTH)[0],
            lambda queries: inner.search(queries, DEPTH)[1],
            told,
        )
    ours = ApproximateIndex(inner)
    if kind == "hnsw":
        parameters, peer = faiss.SearchParametersHNSW(efSearch=BREADTH_SEARCH), inner
    else:
        peer = faiss.IndexRefineFlat(inner, faiss.swig_ptr(np.ascontiguousarray(vectors)))
        base = faiss.SearchParametersIVF(nprobe=probed_lists(inner.nlist))
        parameters = faiss.IndexRefineSearchParameters(k_factor=REFINED, base_index_params=base)
    return (
        lambda queries: ours.search(queries, vectors, DEPTH, None)[0],
        lambda queries: peer.search(queries, DEPTH, params=parameters)[1],
        told,
    )


def written(faiss: Any, inner: Any) -> int:  # noqa: ANN401 - faiss is untyped
    """Bytes of an index as it is written to a file, which is what it holds in memory."""
    size = 0

    def count(data: bytes) -> int:
        nonlocal size
        size += len(data)
        return len(data)

    writer = faiss.PyCallbackIOWriter(count)
    faiss.write_index(inner, writer)
    del writer  # it buffers, and writes the rest when it goes
    return size


def recall(hits: NDArray[np.int64], exact: NDArray[np.int64]) -> float:
    """The part of the exact hits that was found."""
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(hits.tolist(), exact.tolist(), strict=True)]))


def measured(kind: str, vectors: NDArray[np.float32], queries: NDArray[np.float32], exact: NDArray[np.int64],
             breadth: int, turns: int, seconds: float) -> dict[str, Any]:  # fmt: skip
    """A row of the record: build, recall, and queries per second of both sides, one by one and 64 at a time."""
    ours, peer, told = both(kind, vectors, breadth)
    row = {"rows": len(vectors), "dimension": vectors.shape[1], "kind": kind, **told}
    with threadpool_limits(1):
        row["recall"] = {"opencse": recall(ours(queries), exact), "faiss": recall(peer(queries), exact)}
        for name, size, step in (("one", _SINGLES[kind], 1), ("together", TOGETHER, TOGETHER)):

            def of(search: Search, size: int = size, step: int = step) -> Callable[[int], None]:
                def call(turn: int) -> None:
                    first = turn * size % (HELD - size + 1)
                    for start in range(first, first + size, step):
                        search(queries[start : start + step])

                return call

            name_of_row = f"{kind}, {len(vectors):,} rows, {step} at a time"
            both_sides = timed(name_of_row, {"opencse": of(ours)}, of(peer), size=size, unit="queries/s", turns=turns,
                               seconds=seconds)  # fmt: skip
            row[name] = asdict(both_sides[0])
            print(both_sides[0].line(), flush=True)
    return row


def table(records: Sequence[dict[str, Any]]) -> str:
    """One row per size and kind of the first record."""
    lines = [
        "| rows | kind | build | memory, opencse | FAISS | recall@10, opencse | FAISS | queries/s, one at a time | "
        f"compared with FAISS | queries/s, {TOGETHER} at a time | compared with FAISS |",
        "|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in records[0]["rows"]:
        kind = row["kind"]
        if row["breadth_build"] not in (None, BREADTH_BUILD):
            kind += f" (built with breadth {row['breadth_build']})"
        cells = [f"{row['rows']:,}", kind, f"{row['build_seconds']:,.1f} s"]
        cells += [f"{row['bytes'][side] / 1e6:,.0f} MB" for side in ("opencse", "faiss")]
        cells += [f"{row['recall'][side]:.3f}" for side in ("opencse", "faiss")]
        for name in ("one", "together"):
            cells += [f"{row[name]['ours']:,.0f}", f"{row[name]['ratio']:.2f}x"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measures and writes the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--large", type=int, default=1_000_000, help="rows from which --large-breadth is taken")
    parser.add_argument("--large-breadth", type=int, default=40, help="candidates while a large hnsw index is built")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=8, help="after which no further turn begins")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where the vectors are written")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    rows: dict[tuple[int, str], dict[str, Any]] = {}
    if asked.json and asked.json.exists():
        measured_before = json.loads(asked.json.read_text(encoding="utf-8"))["rows"]
        rows = {(row["rows"], row["kind"]): row for row in measured_before}
    for count in asked.rows:
        breadth = asked.large_breadth if count >= asked.large else BREADTH_BUILD
        with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
            vectors, queries = clustered(Path(folder) / "vectors.f32", count, asked.dimension, asked.seed)
            exact, _ = nearest_prepared(queries, vectors, DEPTH)
            for kind in asked.kinds:
                if kind != "ivfpq" or count >= FEWEST:
                    row = measured(kind, vectors, queries, exact, breadth, asked.turns, asked.seconds)
                    rows[count, kind] = {"machine": machine(), "seed": asked.seed, **row}
                    write(asked.json, [rows[key] for key in sorted(rows)])
            del vectors
    print(table([{"rows": [rows[key] for key in sorted(rows)]}]))


def write(path: Path | None, rows: Sequence[dict[str, Any]]) -> None:
    """Writes the record of the rows so far."""
    if path is None:
        return
    record = {
        "command": "OMP_NUM_THREADS=2 python benchmarks/search_peers.py --rows 10000 100000 1000000",
        "threads": {"build": os.cpu_count(), "search": 1},
        "versions": {"faiss-cpu": installed("faiss-cpu"), "numpy": installed("numpy")},
        "rows": rows,
    }
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
