"""A search index in a folder: built once, queried, added to and deleted from, and never found half written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from opencse.encoder.encoder import WINDOW, SentenceEncoder
from opencse.encoder.fingerprint import fingerprint
from opencse.encoder.vectors import unit_rows
from opencse.errors import UserError
from opencse.progress import Progress, Silent
from opencse.search.exact import Places, Scores, Unit, nearest_units
from opencse.search.filters import Where, sql_of
from opencse.search.rows import Row, RowLike, checked_rows
from opencse.search.store import (
    Facts,
    Store,
    Stored,
    Writer,
    create,
    current,
    locked,
    new_name,
    point_to,
    refused,
    remove_others,
    sql_columns,
)

_COMPACT = 4
"""One dead place in so many makes the vector file be written anew."""


@dataclass(frozen=True)
class Hit:
    """A row that was found.

    Attributes:
        id: of the row, or of the document that the text is a passage of.
        score: cosine to the query; of a hybrid search the sum of reciprocal ranks.
        text: the row's; of a document the best passage.
        metadata: by column; None where a row has no value.
    """

    id: str
    score: float
    text: str
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class IndexInfo:
    """What an index is.

    Attributes:
        folder: where it is.
        kind: flat, hnsw or ivfpq.
        rows: texts in it; of documents their passages.
        documents: different ids.
        dimension: of a vector.
        model: what the encoder was called when the index was built.
        fingerprint: of that encoder; only an encoder with the same one may query.
        pooling: what replaced the model's own, or None.
        columns: metadata, by name the kind of its values: number, text or mixed.
        max_length: ids of the longest passage; None: texts are not cut.
        overlap: ids that two passages of a document may share.
        version: counts the changes.
        megabytes: of the vectors.
    """

    folder: str
    kind: str
    rows: int
    documents: int
    dimension: int
    model: str
    fingerprint: str
    pooling: str | None
    columns: Mapping[str, str]
    max_length: int | None
    overlap: int
    version: int
    megabytes: float


@dataclass(frozen=True)
class _State:
    """The index at one moment."""

    facts: Facts
    vectors: Unit
    alive: Places | None


class Index:
    """Texts, their metadata and their vectors, in a folder.

    Searching may be done from several threads, while another process adds and deletes: each search sees the index as
    it is at one moment.
    """

    def __init__(self, folder: Path, encoder: SentenceEncoder | None) -> None:
        self.folder = folder
        self._store = Store.open(folder)
        self._encoder = encoder
        self._seen: _State | None = None

    @classmethod
    def open(cls, folder: str | Path, *, encoder: SentenceEncoder | None = None) -> Self:
        """The index in a folder.

        Args:
            folder: of the index.
            encoder: what texts are encoded by; None: the model that the index names, loaded when a text comes.

        Raises:
            UserError: if there is no index, it is damaged, or it was built with another model.
        """
        index = cls(Path(folder), encoder)
        with index._store.snapshot() as facts:
            index._state(facts)
        if encoder is not None:
            _require_same(index.folder, facts, encoder)
        return index

    @classmethod
    def build(
        cls,
        folder: str | Path,
        rows: Iterable[RowLike],
        encoder: SentenceEncoder,
        *,
        model: str = "",
        pooling: str | None = None,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> Self:
        """A new index of some rows.

        Args:
            folder: made if it is not there; what it held stays until the new index is whole.
            rows: texts, `Row`s, or mappings with ``text``, maybe ``id``, and columns of metadata.
            encoder: encodes them, and later the queries.
            model: what the encoder is loaded by; None: an index that is only queried by a loaded encoder.
            pooling: what replaced the model's own when it was loaded.
            overwrite: replace an index that is there.
            progress: hears of it.

        Raises:
            UserError: for rows that cannot be kept, or a folder that holds an index or cannot be written.
        """
        path = Path(folder)
        with refused(path):
            path.mkdir(parents=True, exist_ok=True)
        with locked(path):
            if (path / "index.json").exists() and not overwrite:
                raise UserError(f"{path}: holds an index; add to it (opencse index add), or give --overwrite")
            facts = Facts(
                model=model,
                fingerprint=fingerprint(encoder),
                pooling=pooling,
                dimension=encoder.dimension,
                vectors=new_name("vectors-", ".f32"),
            )
            with refused(path):
                name = create(path, facts)
                with Writer(path, name) as writer:
                    _append(writer, encoder, rows, progress or Silent())
                    writer.commit()
                point_to(path, name)
                remove_others(path, [name, facts.vectors])
        return cls.open(path, encoder=encoder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        with self._store.snapshot() as facts:
            return facts.rows

    def close(self) -> None:
        """Lets go of the files."""
        self._store.close()

    def info(self) -> IndexInfo:
        """What the index is."""
        with self._store.snapshot() as facts:
            documents = self._store.count_documents() if facts.passages else facts.rows
        return IndexInfo(
            folder=str(self.folder),
            kind=facts.kind,
            rows=facts.rows,
            documents=documents,
            dimension=facts.dimension,
            model=facts.model,
            fingerprint=facts.fingerprint,
            pooling=facts.pooling,
            columns=facts.columns,
            max_length=facts.max_length,
            overlap=facts.overlap,
            version=facts.version,
            megabytes=4e-6 * facts.slots * facts.dimension,
        )

    def search(
        self,
        queries: Sequence[str] | NDArray[np.floating],
        k: int = 10,
        *,
        threshold: float | None = None,
        where: Where | None = None,
        hybrid: bool = False,
    ) -> list[list[Hit]]:
        """The k rows nearest to each query by cosine, equal ones in the order they were added.

        Of a document that was cut into passages the best one is told.

        Args:
            queries: texts, or (n, d) vectors.
            k: how many rows, at most.
            threshold: least cosine; None: however low.
            where: conditions on metadata; the k are of the rows that meet them. See `opencse.search.filters`.
            hybrid: rank by words (BM25) and vectors together.

        Raises:
            UserError: for a k below 1, queries of another kind or dimension, a column that is not there, or a model
                that is not the index's.
        """
        if k < 1:
            raise UserError(f"k is the number of rows to find, at least 1, not {k}")
        vectors = self.encode_queries(queries)
        with self._moment() as state:
            return self._dense(state, vectors, k, threshold, where)

    def encode_queries(self, queries: Sequence[str] | NDArray[np.floating]) -> Unit:
        """(n, d) L2-normalised vectors of queries.

        Raises:
            UserError: see `search`.
        """
        with self._store.snapshot() as facts:
            pass
        if isinstance(queries, np.ndarray):
            vectors = np.atleast_2d(queries)
            if vectors.ndim != 2 or vectors.dtype.kind not in "fiu" or vectors.shape[1] != facts.dimension:
                raise UserError(
                    f"queries are a (n, {facts.dimension}) array of numbers, not {queries.dtype} of {queries.shape}"
                )
        else:
            if isinstance(queries, str):
                raise UserError("queries: give a list of texts, or an array of vectors")
            if not len(queries):
                return np.zeros((0, facts.dimension), dtype=np.float32)
            vectors = self.encoder.encode(list(queries))
        if not np.isfinite(vectors).all():
            raise UserError("queries: a vector holds NaN or infinity; the model's weights are damaged, or the array")
        return unit_rows(vectors)

    @property
    def encoder(self) -> SentenceEncoder:
        """What texts are encoded by.

        Raises:
            UserError: if the model that the index names is not there, or another one by now.
        """
        if self._encoder is None:
            with self._store.snapshot() as facts:
                pass
            if not facts.model:
                raise UserError(f"{self.folder}: names no model; open it with the encoder it was built with")
            encoder = SentenceEncoder.load(facts.model, pooling=facts.pooling)
            _require_same(self.folder, facts, encoder)
            self._encoder = encoder
        return self._encoder

    def vectors(self, ids: Sequence[str] | None = None) -> NDArray[np.float32]:
        """(n, d) L2-normalised vectors of all living rows in their order, or of those with some ids, in the ids' order.

        Raises:
            UserError: for an id that is not there.
        """
        with self._moment() as state:
            if ids is None:
                return np.array(state.vectors if state.alive is None else state.vectors[state.alive])
            return np.array(state.vectors[[row[0] for row in self._named(ids, state.facts)]])

    def rows(self, offset: int = 0, limit: int | None = None) -> list[Hit]:
        """Living rows in the order they were added, each with score 1.

        Args:
            offset: rows to pass over.
            limit: how many, at most; None: all.
        """
        if offset < 0 or (limit is not None and limit < 0):
            raise UserError(f"offset and limit are at least 0, not {offset} and {limit}")
        with self._moment() as state:
            found = self._store.select("1", [-1 if limit is None else limit, offset], state.facts, "LIMIT ? OFFSET ?")
            return [_hit(row, 1.0, state.facts) for row in found]

    def add(
        self,
        rows: Iterable[RowLike],
        *,
        replace: bool = False,
        encoder: SentenceEncoder | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Adds rows; all of them, or on an error or a kill none. How many.

        Args:
            rows: see `build`.
            replace: take the place of rows with the same ids.
            encoder: what they are encoded by; the index's own by default.
            progress: hears of it.

        Raises:
            UserError: for an id that is there already, rows that cannot be kept, another model, or another writer.
        """
        with self._writing() as writer:
            if encoder is not None:
                _require_same(self.folder, writer.facts, encoder)
            before = writer.facts.slots
            _append(writer, encoder or self.encoder, rows, progress or Silent(), replace=replace)
            self._finish(writer)
            return writer.facts.slots - before

    def delete(self, ids: Sequence[str] | None = None, *, where: Where | None = None) -> int:
        """Deletes the rows with some ids, or those that meet conditions; all or, on a kill, none. How many.

        Args:
            ids: of rows or documents.
            where: conditions on metadata; see `search`.

        Raises:
            UserError: for an id that is not there, neither ids nor conditions, or another writer.
        """
        if isinstance(ids, str):
            raise UserError("ids: give a list of ids")
        if (ids is None) == (where is None):
            raise UserError("delete: give ids or conditions (where), one of them")
        with self._writing() as writer:
            if ids is not None:
                wanted = list(dict.fromkeys(ids))
                missing = sorted(set(wanted) - writer.known(wanted))
                if missing:
                    raise UserError(f"{self.folder}: no row has the id {missing[0][:80]!r}; nothing was deleted")
                done = _remove_ids(writer, wanted)
            else:
                done = writer.remove(*sql_of(where or {}, _sql_names(writer.facts)))
            self._finish(writer)
            return done

    def _finish(self, writer: Writer) -> None:
        if writer.facts.slots > _COMPACT * max(1, writer.facts.rows) // (_COMPACT - 1):
            writer.compact()
        writer.commit()

    @contextmanager
    def _writing(self) -> Iterator[Writer]:
        with locked(self.folder), refused(self.folder):
            name = current(self.folder)
            with Writer(self.folder, name) as writer:
                remove_others(self.folder, [name, writer.facts.vectors, writer.facts.engine or ""])
                yield writer

    @contextmanager
    def _moment(self) -> Iterator[_State]:
        with self._store.snapshot() as facts:
            yield self._state(facts)

    def _state(self, facts: Facts) -> _State:
        seen = self._seen
        if seen is None or seen.facts != facts:
            seen = _State(facts, self._store.vectors(facts), self._store.alive(facts))
            self._seen = seen
        return seen

    def _dense(
        self, state: _State, queries: Unit, k: int, threshold: float | None, where: Where | None
    ) -> list[list[Hit]]:
        among = state.alive
        if where is not None:
            among = self._store.places(*sql_of(where, _sql_names(state.facts)))
        most = k
        while True:
            places, scores = nearest_units(queries, state.vectors, most, among)
            found = self._hits(state.facts, places, scores, k, threshold)
            if not state.facts.passages or places.shape[1] < most or all(len(hits) == k for hits in found):
                return found
            most *= 4

    def _hits(self, facts: Facts, places: Places, scores: Scores, k: int, threshold: float | None) -> list[list[Hit]]:
        rows = self._store.at(np.unique(places), facts)
        lists = []
        for near, values in zip(places.tolist(), scores.tolist(), strict=True):
            best: dict[str, Hit] = {}
            for place, score in zip(near, values, strict=True):
                if len(best) < k and (threshold is None or score >= threshold):
                    hit = _hit(rows[place], score, facts)
                    best.setdefault(hit.id, hit)
            lists.append(list(best.values()))
        return lists

    def _named(self, ids: Sequence[str], facts: Facts) -> list[Stored]:
        import json

        found: dict[str, list[Stored]] = {}
        for row in self._store.select("id IN (SELECT value FROM json_each(?))", [json.dumps(list(ids))], facts):
            found.setdefault(row[1], []).append(row)
        for name in ids:
            if name not in found:
                raise UserError(f"{self.folder}: no row has the id {name[:80]!r}")
        return [row for name in ids for row in found[name]]


def _append(
    writer: Writer, encoder: SentenceEncoder, rows: Iterable[RowLike], progress: Progress, *, replace: bool = False
) -> None:
    given = list(checked_rows(rows))
    progress.start("encoding", len(given))
    try:
        for start in range(0, len(given), WINDOW):
            window = _with_ids(given[start : start + WINDOW], writer.facts.next_id)
            if replace:
                _remove_ids(writer, [row.id for row in window if row.id is not None])
            vectors = encoder.encode(
                [row.text for row in window],
                normalize_embeddings=True,
                progress=lambda done, _, before=start: progress.advance(before + done),  # type: ignore[misc]
            )
            _require_finite(window, vectors)
            writer.append([(row, 0) for row in window], vectors)
    finally:
        progress.finish()


def _with_ids(rows: Sequence[Row], next_id: int) -> list[Row]:
    named = []
    for row in rows:
        if row.id is None:
            row = Row(row.text, str(next_id), row.metadata)
        if row.id is not None and row.id.isdecimal() and len(row.id) < 19:
            next_id = max(next_id, int(row.id) + 1)
        named.append(row)
    return named


def _require_finite(rows: Sequence[Row], vectors: NDArray[np.float32]) -> None:
    wrong = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(wrong):
        raise UserError(
            f"the vector of {rows[int(wrong[0])].text[:40]!r} holds NaN or infinity; the model's weights are damaged"
        )


def _remove_ids(writer: Writer, ids: Sequence[str]) -> int:
    import json

    return writer.remove("id IN (SELECT value FROM json_each(?))", [json.dumps(list(ids))])


def _require_same(folder: Path, facts: Facts, encoder: SentenceEncoder) -> None:
    own = fingerprint(encoder)
    if own != facts.fingerprint:
        raise UserError(
            f"{folder}: was built with {facts.model or 'another model'} (fingerprint {facts.fingerprint}), and this "
            f"encoder is another ({own}); query it with that model, or build an index with this one"
        )


def _sql_names(facts: Facts) -> dict[str, str]:
    return {"id": "id", **sql_columns(facts.columns)}


def _hit(row: Stored, score: float, facts: Facts) -> Hit:
    _, name, _, text, values = row
    return Hit(name, score, text, dict(zip(facts.columns, values, strict=True)))
