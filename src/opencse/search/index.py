"""A search index in a folder: built once, queried, added to and deleted from, and never found half written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import fingerprint
from opencse.errors import UserError
from opencse.modules.prompts import Role
from opencse.progress import Counted, Progress, Silent
from opencse.ranking import PreparedVectors
from opencse.search import querying
from opencse.search.building import How, add, build
from opencse.search.changing import changing
from opencse.search.database import Facts
from opencse.search.filters import Where, sql_of
from opencse.search.moments import Moments
from opencse.search.pairs import Duplicates, Pair, duplicate_rows, nearest_pairs
from opencse.search.querying import HYBRID_WEIGHT, State, hit_of, sql_names
from opencse.search.reading import FileRows, GivenRows, RowSource
from opencse.search.result import Hit, IndexInfo
from opencse.search.rows import RowLike


class Index:
    """Texts, their metadata and their vectors, in a folder.

    Searching may be done from several threads, while another process adds and deletes: each search sees the index as
    it is at one moment.
    """

    def __init__(self, folder: Path, encoder: SentenceEncoder | None) -> None:
        self.folder = folder
        self._moments = Moments(folder)
        self._encoder = encoder

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
        try:
            with index.moment() as state:
                if encoder is not None:
                    _require_same(index.folder, state.facts, encoder)
        except BaseException:
            index.close()  # an open database keeps files of its own in the folder
            raise
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
        return self._moments.facts.rows

    @property
    def source(self) -> str | None:
        """Fingerprint of the text it was built from; None once it was changed."""
        with self.moment() as state:
            return state.facts.source

    @property
    def stamp(self) -> str:
        """Another one after every change of the index, and for an index that took its place."""
        store = self._moments.store
        with store.snapshot() as facts:
            return f"{store.name} {facts.version}"

    def moment(self) -> AbstractContextManager[State]:
        """The index as it is now; another process may have changed it or put a new one in its place."""
        return self._moments.now()

    def close(self) -> None:
        """Lets go of the files."""
        self._moments.close()

    def info(self) -> IndexInfo:
        """What the index is."""
        store = self._moments.store
        with store.snapshot() as facts:
            documents = store.count_documents() if facts.passages else facts.rows
        return IndexInfo(
            folder=str(self.folder),
            kind=facts.kind,
            similarity=facts.similarity.value,
            rows=facts.rows,
            documents=documents,
            dimension=facts.dimension,
            model=facts.model,
            fingerprint=facts.fingerprint,
            pooling=facts.pooling,
            query_prompt=facts.query_prompt,
            document_prompt=facts.document_prompt,
            columns=facts.columns,
            max_length=facts.max_length,
            overlap=facts.overlap,
            version=facts.version,
            language=facts.language,
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
        vectors: NDArray[np.floating] | None = None,
    ) -> list[list[Hit]]:
        """The k rows most similar to each query by the model's function, equal ones in the order they were added.

        Of a document that was cut into passages the best one is told.

        Args:
            queries: texts, or (n, d) vectors.
            k: how many rows, at most.
            threshold: least similarity; None: however low.
            where: conditions on metadata; the k are of the rows that meet them. See `opencse.search.filters`.
            hybrid: rank by words (BM25) and vectors together; see `opencse.search.querying.hybrid`.
            hybrid_weight: share of the vectors in that, in [0, 1]; half by default.
            vectors: (n, d) of the texts in ``queries``, where they are known already.

        Raises:
            UserError: for a k below 1, a weight that is no share, queries of another kind or dimension, a column that
                is not there, or a model that is not the index's.
        """
        if k < 1:
            raise UserError(f"k is the number of rows to find, at least 1, not {k}")
        if threshold is not None and math.isnan(threshold):
            raise UserError("the threshold is a similarity, not nan")
        if hybrid and (isinstance(queries, np.ndarray) or threshold is not None):
            raise UserError("a hybrid search ranks texts; give it no vectors as queries, and no threshold")
        if hybrid_weight is not None and not hybrid:
            raise UserError("hybrid_weight is of a hybrid search; ask for one, or leave it out")
        weight = HYBRID_WEIGHT if hybrid_weight is None else hybrid_weight
        if not 0 <= weight <= 1:
            raise UserError(f"hybrid_weight is the share of the vectors, from 0 to 1, not {hybrid_weight}")
        if vectors is not None and len(vectors) != len(queries):
            raise UserError(f"vectors: {len(vectors):,} of {len(queries):,} queries; give one for each")
        units = self.encode(queries if vectors is None else vectors, Role.QUERY)
        with self.moment() as state:
            if hybrid:
                return querying.hybrid(state, list(queries), units, k, where, weight)
            return querying.dense(state, units, k, threshold, where)

    def encode(self, queries: Sequence[str] | NDArray[np.floating], role: Role) -> PreparedVectors:
        """(n, d) vectors of queries or documents, prepared as the index has them (for the cosine L2-normalised).

        Vectors are taken as given.

        Raises:
            UserError: see `search`.
        """
        facts = self._moments.facts
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
            vectors = self.encoder.encode(list(queries), prompt=self.encoder.prompts.of(role))
        if not np.isfinite(vectors).all():
            raise UserError("queries: a vector holds NaN or infinity; the model's weights are damaged, or the array")
        return facts.similarity.prepared(vectors)

    @property
    def encoder(self) -> SentenceEncoder:
        """What texts are encoded by.

        Raises:
            UserError: if the model that the index names is not there, or another one by now.
        """
        if self._encoder is None:
            facts = self._moments.facts
            if not facts.model:
                raise UserError(f"{self.folder}: names no model; open it with the encoder it was built with")
            encoder = SentenceEncoder.load(facts.model, pooling=facts.pooling)
            _require_same(self.folder, facts, encoder)
            self._encoder = encoder
        return self._encoder

    def vectors(self, ids: Sequence[str] | None = None) -> NDArray[np.float32]:
        """(n, d) prepared vectors of all living rows in their order, or of those with some ids, in the ids' order.

        Raises:
            UserError: for an id that is not there.
        """
        with self.moment() as state:
            if ids is None:
                return np.array(state.vectors if state.alive is None else state.vectors[state.alive])
            return np.array(state.vectors[[row[0] for row in state.named(ids)]])

    def vectors_of_hits(self, hits: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """(n, d) vectors of rows by id and text, which tell a passage from the others of its document."""
        with self.moment() as state:
            ids = list(dict.fromkeys(name for name, _ in hits))
            places = {(name, text): place for place, name, _, text, _ in state.named(ids)}
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
            rows = state.store.select("1", [], state.facts)
            groups = None
            if state.facts.passages:
                number: dict[str, int] = {}
                groups = np.array([number.setdefault(row[1], len(number)) for row in rows], dtype=np.int64)
            vectors = state.vectors if state.alive is None else np.asarray(state.vectors[state.alive])
        found, scores = nearest_pairs(
            vectors, most, similarity=state.similarity, groups=groups, progress=_counted(progress, "comparing")
        )
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
            rows = state.store.select("1", [], state.facts)
            vectors = state.vectors if state.alive is None else np.asarray(state.vectors[state.alive])
        texts = [row[3] for row in rows]
        found = duplicate_rows(
            vectors, texts, threshold, similarity=state.similarity, progress=_counted(progress, "comparing")
        )
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
            found = state.store.select("1", [-1 if limit is None else limit, offset], state.facts, "LIMIT ? OFFSET ?")
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
        tell = progress or Silent()
        with changing(self.folder, tell) as writer:
            self._moments.require_same(writer.facts)
            if encoder is not None:
                _require_same(self.folder, writer.facts, encoder)
            return add(writer, _source(rows), encoder or self.encoder, replace=replace, progress=tell)

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
        with changing(self.folder, progress or Silent()) as writer:
            if ids is None:
                return writer.remove(*sql_of(where or {}, sql_names(writer.facts), writer.facts.columns))
            wanted = list(dict.fromkeys(ids))
            missing = sorted(set(wanted) - writer.known(wanted))
            if missing:
                raise UserError(f"{self.folder}: no row has the id {missing[0][:80]!r}; nothing was deleted")
            return writer.remove_ids(wanted)


def _counted(progress: Progress | None, what: str) -> Counted | None:
    return None if progress is None else Counted(progress, what)


def _source(rows: Iterable[RowLike] | RowSource) -> RowSource:
    return rows if isinstance(rows, GivenRows | FileRows) else GivenRows(rows)


def _require_same(folder: Path, facts: Facts, encoder: SentenceEncoder) -> None:
    if encoder.similarity_fn_name is not facts.similarity:
        raise UserError(
            f"{folder}: compares vectors by {facts.similarity}, and the model by {encoder.similarity_fn_name}; build "
            "the index again (--overwrite)"
        )
    own = fingerprint(encoder)
    prompts = encoder.prompts.of(Role.QUERY), encoder.prompts.of(Role.DOCUMENT)
    if own != facts.fingerprint and prompts != (facts.query_prompt, facts.document_prompt):
        raise UserError(
            f"{folder}: was built with the prompts {facts.query_prompt!r} for queries and {facts.document_prompt!r} "
            f"for documents, and this encoder has {prompts[0]!r} and {prompts[1]!r}; query it with the model as it was "
            "then, or build the index again"
        )
    if own != facts.fingerprint:
        raise UserError(
            f"{folder}: was built with {facts.model or 'another model'} (fingerprint {facts.fingerprint}), and this "
            f"encoder is another ({own}); query it with that model, or build an index with this one"
        )
