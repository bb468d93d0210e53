"""Exports an index to Qdrant, LanceDB or PostgreSQL with pgvector, through their own clients."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError, masked, reason, require_known
from opencse.modules.similarity import Similarity
from opencse.outputs import foreign_files_message, names_in, require_apart
from opencse.search.index import Index
from opencse.search.queries import hit_of
from opencse.search.result import Hit

_BATCH = 1_000
_REMOTE = ("http://", "https://", "s3://", "gs://", "az://", "db://")
FOLDERS = {"lancedb": r".*\.lance|__manifest", "qdrant": r"meta\.json|collection|aliases|\.lock"}
"""Stores that may be a folder on this machine, and the names of the files in such a folder."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_NAMESPACE = uuid.UUID("b0a3b2a0-5d0e-4b7e-9c53-0f8f8b5f6f11")


@dataclass(frozen=True)
class Exported:
    """The result of an export.

    Example:
        >>> exported = Exported("lancedb", "store", "texts", 5, 'query it with .distance_type("cosine")')
        >>> exported.rows
        5

    Attributes:
        to: qdrant, lancedb or pgvector.
        target: folder, URL or connection string, without passwords.
        name: the name of the collection or table.
        rows: number of exported rows.
        how: how to query it, so that vectors are compared as the model does.
    """

    to: str
    target: str
    name: str
    rows: int
    how: str


def export(index: Index, to: str, target: str, name: str) -> Exported:
    """Copies ids, texts, metadata and vectors (L2-normalised for the cosine) into another store.

    Args:
        index: to export.
        to: a key of `STORES`.
        target: folder, URL or connection string, as that store's client expects it.
        name: the name of the new collection or table: letters, digits and underscores.

    Raises:
        UserError: see `opencse.export_index`.
    """
    require_known(to, list(STORES), "store")
    similarity = Similarity(index.info().similarity)
    how = QUERIED[to](similarity)
    if how is None:
        raise UserError(
            f"{to} cannot compare by {similarity}, as this index does; export to qdrant or pgvector instead"
        )
    if not _NAME.fullmatch(name):
        raise UserError(
            f"{name!r}: names of collections and tables have letters, digits and underscores; choose another --name"
        )
    if to in FOLDERS and not target.startswith(_REMOTE):
        _require_folder(Path(target), index.folder, FOLDERS[to])
    info = index.info()
    if info.encoded_dimension is not None:
        how += f"; query it with the first {info.dimension} of the model's {info.encoded_dimension} dimensions"
    safe_target = masked(target, target)
    try:
        rows = STORES[to](index, target, name)
    except ImportError as error:
        package = {"qdrant": "qdrant-client", "lancedb": "lancedb", "pgvector": "psycopg[binary] pgvector"}[to]
        raise UserError(f"{to} needs its client ({reason(error)}); pip install {package}") from None
    except UserError:
        raise
    except Exception as error:  # each client has errors of its own
        message = masked(reason(error), target)[:200]
        raise UserError(f"{safe_target}: {to} refused ({type(error).__name__}: {message})") from None
    return Exported(to, safe_target, name, rows, how)


def _require_folder(target: Path, index: Path, pattern: str) -> None:
    """Refuses a folder that holds other files, or that overlaps with the index; changes nothing."""
    require_apart(target, read=[index], option="target")
    names = {name for name in names_in(target, "target") if not re.fullmatch(pattern, name)}
    if names:
        raise UserError(foreign_files_message(target, names, "the store"))


def _qdrant(index: Index, target: str, name: str) -> int:
    from qdrant_client import QdrantClient, models

    remote = target.startswith(_REMOTE)
    client = QdrantClient(url=target) if remote else QdrantClient(path=target)
    try:
        if client.collection_exists(name):
            raise UserError(f"{masked(target)}: a collection {name!r} exists already; choose another --name")
        size = index.info().dimension
        client.create_collection(name, models.VectorParams(size=size, distance=_qdrant_distance(index)))
        rows = 0
        for hits, vectors in _batches(index):
            points = [
                models.PointStruct(
                    id=str(uuid.uuid5(_NAMESPACE, f"{hit.id}\0{rows + number}")),  # Qdrant only takes numbers or UUIDs
                    vector=vector,
                    payload={**hit.metadata, "id": hit.id, "text": hit.text},
                )
                for number, (hit, vector) in enumerate(zip(hits, vectors.tolist(), strict=True))
            ]
            client.upsert(name, points)
            rows += len(hits)
        return rows
    finally:
        client.close()


def _qdrant_distance(index: Index) -> Any:  # noqa: ANN401 - of the client
    from qdrant_client import models

    names = {
        Similarity.COSINE: models.Distance.COSINE,
        Similarity.DOT: models.Distance.DOT,
        Similarity.EUCLIDEAN: models.Distance.EUCLID,
        Similarity.MANHATTAN: models.Distance.MANHATTAN,
    }
    return names[Similarity(index.info().similarity)]


def _lancedb(index: Index, target: str, name: str) -> int:
    import lancedb
    import pyarrow

    info = index.info()
    kinds = {"number": pyarrow.float64(), "text": pyarrow.string(), "mixed": pyarrow.string(), "": pyarrow.string()}
    schema = pyarrow.schema(
        [
            ("id", pyarrow.string()),
            ("text", pyarrow.string()),
            ("vector", pyarrow.list_(pyarrow.float32(), info.dimension)),
            *((column, kinds[kind]) for column, kind in info.columns.items()),
        ]
    )
    database = lancedb.connect(target)
    try:
        table = database.create_table(name, schema=schema)
    except ValueError as error:
        if "already exists" not in str(error):
            raise
        raise UserError(f"{masked(target)}: a table {name!r} exists already; choose another --name") from None
    rows = 0
    for hits, vectors in _batches(index):
        table.add(
            [
                {"id": hit.id, "text": hit.text, "vector": vector, **_typed(hit, info.columns)}
                for hit, vector in zip(hits, vectors, strict=True)
            ]
        )
        rows += len(hits)
    return rows


def _pgvector(index: Index, target: str, name: str) -> int:
    import psycopg
    from pgvector.psycopg import register_vector

    info = index.info()
    create, insert = statements(name, info.dimension, dict(info.columns))
    rows = 0
    with psycopg.connect(target) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        register_vector(connection)
        connection.execute(create)
        with connection.cursor() as cursor:
            for hits, vectors in _batches(index):
                cursor.executemany(insert, values_of(hits, vectors, dict(info.columns)))
                rows += len(hits)
    return rows


def statements(name: str, dimension: int, columns: dict[str, str]) -> tuple[str, str]:
    """The SQL statements that create the table, and that insert a row.

    Args:
        name: the name of the table.
        dimension: the dimension of a vector.
        columns: the columns of metadata, each with the type of its values.
    """
    kinds = {"number": "double precision"}
    more = "".join(f", {_quoted(column)} {kinds.get(kind, 'text')}" for column, kind in columns.items())
    create = (
        f"CREATE TABLE {_quoted(name)} "
        f"(place bigserial PRIMARY KEY, id text NOT NULL, text text NOT NULL, "
        f"embedding vector({dimension}) NOT NULL{more})"
    )
    names = "".join(f", {_quoted(column)}" for column in columns).replace("%", "%%")  # psycopg fills in at %s
    insert = (
        f"INSERT INTO {_quoted(name)} (id, text, embedding{names}) VALUES ({', '.join(['%s'] * (3 + len(columns)))})"
    )
    return create, insert


def values_of(hits: list[Hit], vectors: NDArray[np.float32], columns: dict[str, str]) -> list[tuple[Any, ...]]:
    """The values of each row, in the order of `statements`."""
    return [
        (hit.id, hit.text, vector, *_typed(hit, columns).values()) for hit, vector in zip(hits, vectors, strict=True)
    ]


def _typed(hit: Hit, columns: Any) -> dict[str, Any]:  # noqa: ANN401 - a mapping of names
    """The metadata of a row in the types of the table's columns."""
    typed: dict[str, Any] = {}
    for column, kind in columns.items():
        value = hit.metadata[column]
        typed[column] = (
            value if value is None or kind == "text" else float(str(value)) if kind == "number" else str(value)
        )
    return typed


def _batches(index: Index) -> Iterator[tuple[list[Hit], NDArray[np.float32]]]:
    """Rows and their vectors, in batches, all of one snapshot."""
    with index.snapshot() as snapshot:
        for start in range(0, len(snapshot.positions), _BATCH):
            positions = snapshot.positions[start : start + _BATCH]
            rows = snapshot.rows_at(positions)
            yield (
                [hit_of(rows[position], 1.0, snapshot.manifest) for position in positions.tolist()],
                np.asarray(snapshot.vectors[positions]),
            )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


STORES: dict[str, Callable[[Index, str, str], int]] = {"qdrant": _qdrant, "lancedb": _lancedb, "pgvector": _pgvector}

_LANCEDB = {Similarity.COSINE: "cosine", Similarity.DOT: "dot", Similarity.EUCLIDEAN: "l2"}
_PGVECTOR = {
    Similarity.COSINE: "<=>",
    Similarity.DOT: "<#>",
    Similarity.EUCLIDEAN: "<->",
    Similarity.MANHATTAN: "<+>",
}


def _qdrant_advice(similarity: Similarity) -> str | None:
    return f"the collection compares by {similarity}"


def _lancedb_advice(similarity: Similarity) -> str | None:
    return None if similarity not in _LANCEDB else f'query it with .distance_type("{_LANCEDB[similarity]}")'


def _pgvector_advice(similarity: Similarity) -> str | None:
    return f"ORDER BY embedding {_PGVECTOR[similarity]} a query's vector"


QUERIED: dict[str, Callable[[Similarity], str | None]] = {
    "qdrant": _qdrant_advice,
    "lancedb": _lancedb_advice,
    "pgvector": _pgvector_advice,
}
"""Tells how to query each store so that it compares by a similarity; None where it cannot."""
