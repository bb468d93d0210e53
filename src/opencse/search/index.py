"""A search index in a folder: built once, queried, added to and deleted from, and never found half written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import fingerprint
from opencse.encoder.vectors import unit_rows
from opencse.errors import UserError
from opencse.progress import Counted, Progress, Silent
from opencse.search import querying
from opencse.search.building import How, add, build
from opencse.search.engines import Engine, write_engine
from opencse.search.exact import Unit
from opencse.search.filters import Where, sql_of
from opencse.search.kept_words import place_of
from opencse.search.pairs import Duplicates, Pair, duplicate_rows, nearest_pairs
from opencse.search.querying import HYBRID_WEIGHT, State, hit_of, sql_names
from opencse.search.reading import FileRows, GivenRows, RowSource
from opencse.search.result import Hit, IndexInfo
from opencse.search.rows import RowLike
from opencse.search.store import (
    NAMES,
    Facts,
    Store,
    Stored,
    Writer,
    current,
    locked,
    refused,
    remove_others,
)

_COMPACT = 4
"""One dead place in so many makes the vector file be written anew."""
_TRIES = 5


class Index:
    """Texts, their metadata and their vectors, in a folder.

    Searching may be done from several threads, while another process adds and deletes: each search sees the index as
    it is at one moment.
    """

    def __init__(self, folder: Path, encoder: SentenceEncoder | None) -> None:
        self.folder = folder
        self._store = Store.open(folder)
        self._encoder = encoder
        self._seen: State | None = None
        self._stamp = 0

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
        with index.moment() as state:
            if encoder is not None:
                _require_same(index.folder, state.facts, encoder)
        return index

    @classmethod
    def build(
        cls,
        folder: str | Path,
        rows: Iterable[RowLike] | RowSource,
        encoder: SentenceEncoder,
        *,
        how: How | None = None,
        model: str = "",
        pooling: str | None = None,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> Self:
        """A new index of some rows; broken off, the same call goes on where it was.

        Args:
            folder: made if it is not there; what it held stays until the new index is whole.
            rows: texts, `Row`s, mappings with ``text``, maybe ``id``, and columns of metadata; or a `RowSource`.
            encoder: encodes them, and later the queries.
            how: the kind of index, and how long texts are cut; by default flat, and at the model's length.
            model: what the encoder is loaded by; empty: the index is only queried with a loaded encoder.
            pooling: what replaced the model's own when it was loaded.
            overwrite: replace an index that is there.
            progress: hears of it.

        Raises:
            UserError: for rows that cannot be kept, or a folder that holds an index or cannot be written.
        """
        path = Path(folder)
        build(
            path,
            _source(rows),
            encoder,
            how or How(),
            model=model,
            pooling=pooling,
            overwrite=overwrite,
            progress=progress or Silent(),
        )
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

    @property
    def source(self) -> str | None:
        """Fingerprint of the text it was built from; None once it was changed."""
        with self.moment() as state:
            return state.facts.source

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
        hybrid_weight: float | None = None,
    ) -> list[list[Hit]]:
        """The k rows nearest to each query by cosine, equal ones in the order they were added.

        Of a document that was cut into passages the best one is told.

        Args:
            queries: texts, or (n, d) vectors.
            k: how many rows, at most.
            threshold: least cosine; None: however low.
            where: conditions on metadata; the k are of the rows that meet them. See `opencse.search.filters`.
            hybrid: rank by words (BM25) and vectors together; see `opencse.search.querying.hybrid`.
            hybrid_weight: share of the vectors in that, in [0, 1]; half by default.

        Raises:
            UserError: for a k below 1, a weight that is no share, queries of another kind or dimension, a column that
                is not there, or a model that is not the index's.
        """
        if k < 1:
            raise UserError(f"k is the number of rows to find, at least 1, not {k}")
        if hybrid and (isinstance(queries, np.ndarray) or threshold is not None):
            raise UserError("a hybrid search ranks texts; give it no vectors as queries, and no threshold")
        if hybrid_weight is not None and not hybrid:
            raise UserError("hybrid_weight is of a hybrid search; ask for one, or leave it out")
        weight = HYBRID_WEIGHT if hybrid_weight is None else hybrid_weight
        if not 0 <= weight <= 1:
            raise UserError(f"hybrid_weight is the share of the vectors, from 0 to 1, not {hybrid_weight}")
        vectors = self.encode_queries(queries)
        with self.moment() as state:
            if hybrid:
                return querying.hybrid(state, list(queries), vectors, k, where, weight)
            return querying.dense(state, vectors, k, threshold, where)

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
        with self.moment() as state:
            if ids is None:
                return np.array(state.vectors if state.alive is None else state.vectors[state.alive])
            return np.array(state.vectors[[row[0] for row in self._named(ids, state.facts)]])

    def vectors_of_hits(self, hits: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """(n, d) vectors of rows by id and text, which tell a passage from the others of its document."""
        with self.moment() as state:
            ids = list(dict.fromkeys(name for name, _ in hits))
            places = {(name, text): place for place, name, _, text, _ in self._named(ids, state.facts)}
            return np.array(state.vectors[[places[hit] for hit in hits]])

    def pairs(self, most: int = 100, *, progress: Progress | None = None) -> list[Pair]:
        """The most similar pairs of rows, exact; two passages of one document are no pair.

        Args:
            most: how many.
            progress: hears of it.

        Raises:
            UserError: for ``most`` below 1.
        """
        with self.moment() as state:
            rows = self._store.select("1", [], state.facts)
            groups = None
            if state.facts.passages:
                number: dict[str, int] = {}
                groups = np.array([number.setdefault(row[1], len(number)) for row in rows], dtype=np.int64)
            vectors = state.vectors if state.alive is None else np.asarray(state.vectors[state.alive])
        found, scores = nearest_pairs(vectors, most, groups=groups, progress=_counted(progress, "comparing"))
        return [
            Pair(score, rows[a][1], rows[b][1], rows[a][3], rows[b][3])
            for (a, b), score in zip(found.tolist(), scores.tolist(), strict=True)
        ]

    def duplicates(self, threshold: float | None = None, *, progress: Progress | None = None) -> list[Duplicates]:
        """Groups of rows whose texts are equal but for case and white space, or as similar as a threshold says.

        Args:
            threshold: least cosine; None: equal texts alone.
            progress: hears of it.

        Raises:
            UserError: for a threshold that is no cosine above 0.
        """
        with self.moment() as state:
            rows = self._store.select("1", [], state.facts)
            vectors = state.vectors if state.alive is None else np.asarray(state.vectors[state.alive])
        texts = [row[3] for row in rows]
        found = duplicate_rows(vectors, texts, threshold, progress=_counted(progress, "comparing"))
        groups = []
        for places, cosine in found:
            ids = tuple(dict.fromkeys(rows[place][1] for place in places))
            if len(ids) > 1:  # else they are passages of one document
                groups.append(Duplicates(ids, tuple(rows[place][3] for place in places), cosine))
        return groups

    def rows(self, offset: int = 0, limit: int | None = None) -> list[Hit]:
        """Living rows in the order they were added, each with score 1.

        Args:
            offset: rows to pass over.
            limit: how many, at most; None: all.
        """
        if offset < 0 or (limit is not None and limit < 0):
            raise UserError(f"offset and limit are at least 0, not {offset} and {limit}")
        with self.moment() as state:
            found = self._store.select("1", [-1 if limit is None else limit, offset], state.facts, "LIMIT ? OFFSET ?")
            return [hit_of(row, 1.0, state.facts) for row in found]

    def add(
        self,
        rows: Iterable[RowLike] | RowSource,
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
            tell = progress or Silent()
            done = add(writer, _source(rows), encoder or self.encoder, replace=replace, progress=tell)
            self._finish(writer, tell)
            return done

    def delete(
        self, ids: Sequence[str] | None = None, *, where: Where | None = None, progress: Progress | None = None
    ) -> int:
        """Deletes the rows with some ids, or those that meet conditions; all or, on a kill, none. How many.

        Args:
            ids: of rows or documents.
            where: conditions on metadata; see `search`.
            progress: hears of it.

        Raises:
            UserError: for an id that is not there, neither ids nor conditions, or another writer.
        """
        if isinstance(ids, str):
            raise UserError("ids: give a list of ids")
        if (ids is None) == (not where):
            raise UserError("delete: give ids or conditions (where), one of them")
        with self._writing() as writer:
            if ids is not None:
                wanted = list(dict.fromkeys(ids))
                missing = sorted(set(wanted) - writer.known(wanted))
                if missing:
                    raise UserError(f"{self.folder}: no row has the id {missing[0][:80]!r}; nothing was deleted")
                done = _remove_ids(writer, wanted)
            else:
                done = writer.remove(*sql_of(where or {}, sql_names(writer.facts)))
            self._finish(writer, progress or Silent())
            return done

    def _finish(self, writer: Writer, progress: Progress) -> None:
        writer.change(source=None)
        if writer.facts.slots > _COMPACT * max(1, writer.facts.rows) // (_COMPACT - 1):
            writer.compact()
        write_engine(writer, progress)
        writer.commit()

    @contextmanager
    def _writing(self) -> Iterator[Writer]:
        with locked(self.folder), refused(self.folder):
            name = current(self.folder)
            with Writer(self.folder, name) as writer:
                facts = writer.facts
                words = place_of(name, facts.version)
                remove_others(self.folder, [name, facts.vectors, facts.engine or "", words])
                yield writer

    @contextmanager
    def moment(self) -> Iterator[State]:
        """The index as it is now; another process may have changed it or put a new one in its place."""
        for _ in range(_TRIES):
            self._follow()
            with self._store.snapshot() as facts:
                try:
                    state = self._state(facts)
                except FileNotFoundError as error:  # written anew since; or it is not there at all
                    missing = error.filename
                    continue
                yield state
                return
        raise UserError(f"{self.folder}: damaged ({Path(missing).name} is missing); build the index again")

    def _follow(self) -> None:
        """Opens the index that has taken this one's place, if one has."""
        with suppress(OSError):
            stamp = (self.folder / NAMES).stat().st_mtime_ns
            if stamp != self._stamp:
                name = current(self.folder)
                if (
                    name != self._store.name
                ):  # other threads may still read the old one, which closes when they are done
                    self._store, self._seen = Store(self.folder, name), None
                self._stamp = stamp

    def _state(self, facts: Facts) -> State:
        seen = self._seen
        if seen is None or seen.facts != facts:
            engine = None if facts.engine is None else Engine.read(self.folder / facts.engine, facts.slots)
            seen = State(self._store, facts, self._store.vectors(facts), self._store.alive(facts), engine)
            self._seen = seen
        return seen

    def _named(self, ids: Sequence[str], facts: Facts) -> list[Stored]:
        found: dict[str, list[Stored]] = {}
        for row in self._store.select("id IN (SELECT value FROM json_each(?))", [json.dumps(list(ids))], facts):
            found.setdefault(row[1], []).append(row)
        for name in ids:
            if name not in found:
                raise UserError(f"{self.folder}: no row has the id {name[:80]!r}")
        return [row for name in ids for row in found[name]]


def _counted(progress: Progress | None, what: str) -> Counted | None:
    return None if progress is None else Counted(progress, what)


def _source(rows: Iterable[RowLike] | RowSource) -> RowSource:
    return rows if isinstance(rows, GivenRows | FileRows) else GivenRows(rows)


def _remove_ids(writer: Writer, ids: Sequence[str]) -> int:
    return writer.remove("id IN (SELECT value FROM json_each(?))", [json.dumps(list(ids))])


def _require_same(folder: Path, facts: Facts, encoder: SentenceEncoder) -> None:
    own = fingerprint(encoder)
    if own != facts.fingerprint:
        raise UserError(
            f"{folder}: was built with {facts.model or 'another model'} (fingerprint {facts.fingerprint}), and this "
            f"encoder is another ({own}); query it with that model, or build an index with this one"
        )
