"""The search index in a folder: build, open, search, add, delete, pairs, duplicates. Start reading here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from opencse.encoder.opening import load
from opencse.encoder.text_encoder import TextEncoder
from opencse.errors import UserError
from opencse.home import in_home
from opencse.modules.prompts import Role
from opencse.modules.similarity import HybridWeight
from opencse.numerals import number_of
from opencse.progress import SILENT, Counted, Progress
from opencse.ranking import PreparedVectors, nearest_prepared, similarities
from opencse.search.building import BuildSettings, EncoderOrigin, add, build, changing, require_same_model
from opencse.search.database import weight_fields
from opencse.search.filters import Where, sql_of
from opencse.search.pairs import Duplicates, SimilarPair, duplicate_documents, nearest_pairs
from opencse.search.queries import distinct, hit_of, prepare_queries, require_limits, search_hybrid, search_vectors
from opencse.search.result import Hit, IndexFacts, IndexInfo, Recall, SearchResult
from opencse.search.rows import FileRows, MemoryRows, RowLike, RowSource, id_text
from opencse.search.snapshots import Snapshot, Snapshots, sql_names
from opencse.text.values import as_list


class Index:
    """Texts, their metadata and their vectors in a folder, to be searched.

    Several threads may search while other processes add and delete: each search sees the index at one moment.

    Example:
        >>> import opencse
        >>> encoder = opencse.SentenceEncoder.load(device="cpu")
        >>> rows = [{"text": "A cat sleeps.", "year": 2020}, {"text": "Rain falls.", "year": 2021}]
        >>> with opencse.Index.build("animals", rows, encoder) as index:
        ...     hits = index.search(["a sleeping cat"], k=1)[0]
        ...     print(hits[0].id, hits[0].text, hits[0].metadata)
        ...     print([hit.text for hit in index.search(["a cat"], where={"year": (">", 2020)})[0]])
        0 A cat sleeps. {'year': 2020}
        ['Rain falls.']

    Args:
        folder: the folder of an existing index.
        encoder: encodes texts; None: the model that the index names, loaded when a text is encoded.

    Raises:
        UserError: if there is no index. `open` also checks that it can be used.
    """

    def __init__(self, folder: Path, encoder: TextEncoder | None = None) -> None:
        self.folder = folder
        self._snapshots = Snapshots(folder)
        self._encoder = encoder

    @classmethod
    def open(cls, folder: str | Path, *, encoder: TextEncoder | None = None) -> Self:
        """Opens the index in a folder and checks that its files are complete.

        Args:
            folder: the folder of the index.
            encoder: encodes texts; None: the model that the index names, loaded when a text is encoded.

        Raises:
            UserError: if there is no index, it is damaged, or it was built with another model.
        """
        index = cls(Path(in_home(folder)))
        try:
            with index.snapshot():
                if encoder is not None:
                    index.encoder = encoder
        except BaseException:
            index.close()  # an open database keeps files of its own in the folder
            raise
        return index

    @classmethod
    def build(
        cls,
        folder: str | Path,
        rows: Iterable[RowLike] | RowSource,
        encoder: TextEncoder,
        *,
        how: BuildSettings | None = None,
        model: str = "",
        model_files: str = "",
        pooling: str | None = None,
        overwrite: bool = False,
        progress: Progress = SILENT,
    ) -> Self:
        """Builds an index of some rows; after an interruption the same call continues.

        Args:
            folder: created if it does not exist; an index in it is replaced when the new one is complete.
            rows: texts, `IndexRow`s, mappings with ``text``, maybe ``id``, and columns of metadata; or a `RowSource`.
            encoder: encodes them, and later the queries.
            how: the kind of index, passages and dimensions; by default exact, of the model's length, and all of them.
            model: name or folder from which the encoder was loaded, which is compared; empty: queries need an encoder.
            model_files: the `hash_files` of ``model``, if the encoder was just opened from it, so it is not compared.
            pooling: replaced the model's own pooling when it was loaded.
            overwrite: replace an existing index.
            progress: shows the progress.

        Raises:
            UserError: for invalid rows, another ``model``, or a folder that holds an index or cannot be written.
            TypeError: for an encoder that is not loaded, such as a name.
        """
        if not isinstance(encoder, TextEncoder):
            raise TypeError(f"encoder is a loaded model, as opencse.load returns it, not {type(encoder).__name__}")
        path = Path(in_home(folder))
        build(
            path,
            _source(rows),
            encoder,
            how or BuildSettings(),
            origin=EncoderOrigin(model, model_files, pooling).checked(encoder),
            overwrite=overwrite,
            progress=progress,
        )
        return cls.open(path, encoder=encoder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        with self.snapshot() as snapshot:
            return snapshot.manifest.rows

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """The index at one moment, for the block; other calls inside the block see the same moment."""
        return self._snapshots.take()

    def close(self) -> None:
        """Closes the files."""
        self._snapshots.close()

    @property
    def encoder(self) -> TextEncoder:
        """Encodes texts; loaded at the first use.

        Raises:
            UserError: if the model that the index names does not exist or has changed, or on setting another model.
        """
        if self._encoder is None:
            with self.snapshot() as snapshot:
                manifest = snapshot.manifest
            if not manifest.model:
                raise UserError(f"{self.folder}: names no model; open it with the encoder it was built with")
            self.encoder = load(manifest.model, pooling=manifest.pooling)
        assert self._encoder is not None
        return self._encoder

    @encoder.setter
    def encoder(self, encoder: TextEncoder) -> None:
        with self.snapshot() as snapshot:
            require_same_model(self.folder, snapshot.manifest, encoder)
        self._encoder = encoder

    @property
    def source(self) -> str | None:
        """Fingerprint of the text that the index was built from; None after a change."""
        with self.snapshot() as snapshot:
            return snapshot.manifest.source

    @property
    def stamp(self) -> str:
        """A text that changes with every change of the index, and when another index replaces it."""
        with self.snapshot() as snapshot:
            return f"{snapshot.database} {snapshot.manifest.version}"

    def info(self) -> IndexInfo:
        """Describes the index: number of rows, model, similarity, columns."""
        with self.snapshot() as snapshot:
            manifest, documents = snapshot.manifest, snapshot.count_documents()
        return IndexInfo(
            **manifest.model_dump(include=set(IndexFacts.model_fields)),
            folder=str(self.folder),
            documents=documents,
            hybrid=manifest.hybrid,
            megabytes=4e-6 * manifest.slots * manifest.dimension,
        )

    @property
    def hybrid_weight(self) -> HybridWeight:
        """The weight of the vectors in a hybrid search, and what it was fitted on."""
        with self.snapshot() as snapshot:
            return snapshot.manifest.hybrid

    def set_hybrid_weight(self, weight: HybridWeight) -> None:
        """Saves the weight of the vectors in a hybrid search with the index; its rows stay as they are.

        Raises:
            UserError: for a weight outside [0, 1], or another process that is writing.
        """
        if not 0 <= weight.value <= 1:
            raise UserError(f"the weight of the vectors is from 0 to 1, not {weight.value}")
        with changing(self.folder, SILENT, rows=False) as writer:
            self._snapshots.require_same(writer.manifest)
            writer.change(**weight_fields(weight))

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
    ) -> SearchResult:
        """Finds the k rows that are most similar to each query; ties in the order in which rows were added.

        Of a document with several passages, the best one is returned; of equal texts one, which names the others.

        Args:
            queries: texts, or (n, d) vectors of the index's or all dimensions of its model.
            k: number of hits for each query.
            threshold: lowest similarity; None: any.
            where: conditions on metadata, which all hits meet; see `opencse.search.filters`.
            hybrid: rank by keywords (BM25) and vectors together; see `opencse.search.queries.search_hybrid`.
            hybrid_weight: weight of the vectors in a hybrid search, in [0, 1]; by default the index's.
            vectors: (n, d) vectors of the texts in ``queries``, if they are known already.

        Raises:
            UserError: for a k below 1, a weight outside [0, 1], queries of another type or dimension, an unknown
                column, or a model that is not the index's.
        """
        require_limits(k, hybrid_weight)
        if hybrid and (isinstance(queries, np.ndarray) or threshold is not None):
            raise UserError("a hybrid search ranks texts; give it no vectors as queries, and no threshold")
        if hybrid_weight is not None and not hybrid:
            raise UserError("hybrid_weight needs a hybrid search; add hybrid (--hybrid), or leave it out")
        if vectors is not None and len(vectors) != len(queries):
            raise UserError(f"vectors: {len(vectors):,} for {number_of(len(queries), 'query')}; give one for each")
        encoded = self._encoded(queries if vectors is None else vectors, Role.QUERY)
        with self.snapshot() as snapshot:
            prepared = prepare_queries(encoded, snapshot.manifest)
            if hybrid:
                weight = snapshot.manifest.hybrid.value if hybrid_weight is None else hybrid_weight
                texts = list(queries)
                hits = distinct(
                    snapshot, lambda count: search_hybrid(snapshot, texts, prepared, count, where, weight), k
                )
                hits = [self._with_similarity(query, one) for query, one in zip(prepared, hits, strict=True)]
            else:
                hits = distinct(snapshot, lambda count: search_vectors(snapshot, prepared, count, threshold, where), k)
            function = snapshot.similarity.value
            return SearchResult(
                hits, "hybrid score" if hybrid else function, snapshot.manifest.language, similarity=function
            )

    def encode(self, queries: Sequence[str] | NDArray[np.floating], role: Role) -> PreparedVectors:
        """(n, d) vectors of queries or documents, prepared like the index's (L2-normalised for the cosine).

        Args:
            queries: texts, or (n, d) vectors, which are only prepared.
            role: query or document, which decides the prompt.

        Raises:
            UserError: see `search`.
        """
        encoded = self._encoded(queries, role)
        with self.snapshot() as snapshot:
            return prepare_queries(encoded, snapshot.manifest)

    def vectors(self, ids: Sequence[str | int] | None = None) -> PreparedVectors:
        """(n, d) prepared vectors of all rows in their order, or of the rows with certain ids in the order of the ids.

        Raises:
            UserError: for an id that does not exist.
        """
        with self.snapshot() as snapshot:
            if ids is None:
                return np.array(snapshot.living_vectors)
            return np.array(snapshot.vectors[[row.position for row in snapshot.rows_with_ids(list(map(id_text, ids)))]])

    def vectors_of_hits(self, hits: Sequence[tuple[str, str]]) -> PreparedVectors:
        """(n, d) prepared vectors of hits, each given by id and text (passages of a document share its id)."""
        with self.snapshot() as snapshot:
            rows = snapshot.rows_with_ids(list(dict.fromkeys(name for name, _ in hits)))
            positions = {(row.id, row.text): row.position for row in rows}
            return np.array(snapshot.vectors[[positions[hit] for hit in hits]])

    def pairs(self, most: int = 100, *, progress: Progress = SILENT) -> list[SimilarPair]:
        """Finds the most similar pairs of rows, exactly; two passages of one document are not a pair.

        Args:
            most: number of pairs.
            progress: shows the progress.

        Raises:
            UserError: for ``most`` below 1.
        """
        with self.snapshot() as snapshot:
            rows, vectors, manifest = snapshot.select("1", []), snapshot.living_vectors, snapshot.manifest
        groups = np.unique([row.id for row in rows], return_inverse=True)[1] if manifest.passages else None
        counter = Counted(progress, "comparing")
        pairs, scores = nearest_pairs(vectors, most, similarity=manifest.similarity, groups=groups, progress=counter)
        return [
            SimilarPair(score, rows[a].id, rows[b].id, rows[a].text, rows[b].text)
            for (a, b), score in zip(pairs.tolist(), scores.tolist(), strict=True)
        ]

    def duplicates(self, threshold: float | None = None, *, progress: Progress = SILENT) -> list[Duplicates]:
        """Groups texts that are equal except for case and white space, or at least as similar as a threshold.

        Documents in several passages are compared as a whole: a passage that two of them share makes no duplicates.

        Args:
            threshold: lowest similarity; None: equal texts only.
            progress: shows the progress.

        Raises:
            UserError: for a threshold outside the range of the similarity.
        """
        with self.snapshot() as snapshot:
            rows, vectors = snapshot.select("1", []), snapshot.living_vectors
        passages: dict[str, list[int]] = {}
        for number in sorted(range(len(rows)), key=lambda number: rows[number].part):
            passages.setdefault(rows[number].id, []).append(number)
        documents = sorted(passages.values(), key=min)
        texts = [row.text for row in rows]
        counter = Counted(progress, "comparing")
        groups = duplicate_documents(
            vectors, texts, documents, threshold, similarity=snapshot.similarity, progress=counter
        )
        firsts = [([documents[one][0] for one in group], score) for group, score in groups]
        return [
            Duplicates(tuple(rows[row].id for row in group), tuple(texts[row] for row in group), score)
            for group, score in firsts
        ]

    def measure_recall(self, *, ks: tuple[int, ...] = (1, 10, 100), most: int = 200) -> Recall:
        """Measures how many hits of the exact search an approximate index finds, at several k.

        The queries are a sample of the index's own vectors (fixed seed), each removed from its own hits.

        Args:
            ks: numbers of hits.
            most: size of the sample.
        """
        with self.snapshot() as snapshot:
            positions, vectors, living = snapshot.positions, snapshot.vectors, snapshot.living
            random = np.random.default_rng(0)
            sampled = np.sort(random.choice(positions, min(most, len(positions)), replace=False))
            queries, depth = np.asarray(vectors[sampled]), min(max(ks) + 1, len(positions))
            exact, _ = nearest_prepared(queries, vectors, depth, living, similarity=snapshot.similarity)
            retrieved = exact
            if snapshot.approximate is not None:
                retrieved, _ = snapshot.approximate.search(queries, depth, living)
        recalls: dict[int, list[float]] = {k: [] for k in ks if k < len(positions)}
        for itself, expected, found in zip(sampled.tolist(), exact.tolist(), retrieved.tolist(), strict=True):
            wanted, hits = ([one for one in row if one not in (itself, -1)] for row in (expected, found))
            for k, values in recalls.items():
                values.append(len(set(wanted[:k]) & set(hits[:k])) / k)
        return Recall({k: float(np.mean(values)) for k, values in recalls.items()}, len(sampled))

    def rows(self, offset: int = 0, limit: int | None = None) -> list[Hit]:
        """Reads rows in the order in which they were added, each with score 1.

        Args:
            offset: rows to skip.
            limit: number of rows; None: all.
        """
        with self.snapshot() as snapshot:
            rows = snapshot.select("1", [-1 if limit is None else limit, offset], "LIMIT ? OFFSET ?")
            return [hit_of(row, 1.0, snapshot.manifest) for row in rows]

    def add(
        self,
        rows: Iterable[RowLike] | RowSource,
        *,
        replace: bool = False,
        encoder: TextEncoder | None = None,
        progress: Progress = SILENT,
    ) -> int:
        """Adds rows, all of them or, on an error or a kill, none; returns their number.

        Args:
            rows: see `build`.
            replace: replace rows that have the same ids.
            encoder: encodes them; by default the index's.
            progress: shows the progress.

        Raises:
            UserError: for an id that exists already, invalid rows, another model, or another process that is writing.
        """
        with changing(self.folder, progress) as writer:
            self._snapshots.require_same(writer.manifest)
            if encoder is not None:
                require_same_model(self.folder, writer.manifest, encoder)
            return add(writer, _source(rows), encoder or self.encoder, replace=replace, progress=progress)

    def delete(
        self,
        ids: Sequence[str | int] | None = None,
        *,
        where: Where | None = None,
        progress: Progress = SILENT,
    ) -> int:
        """Deletes rows, all of them or, on a kill, none; returns their number.

        Args:
            ids: the ids of rows or documents.
            where: conditions on metadata, instead of ids; see `opencse.search.filters`.
            progress: shows the progress.

        Raises:
            UserError: for an id that does not exist, neither ids nor conditions, or another process that is writing.
        """
        if isinstance(ids, str):
            raise UserError("ids: give a list of ids")
        if (ids is None) == (not where):
            raise UserError("delete: give either ids or conditions (where)")
        with changing(self.folder, progress) as writer:
            if ids is None:
                columns = writer.manifest.columns
                return writer.remove(*sql_of(where or {}, sql_names(writer.manifest), columns))
            unique = list(dict.fromkeys(map(id_text, ids)))
            missing = sorted(set(unique) - writer.existing_ids(unique))
            if missing:
                raise UserError(f"{self.folder}: no row has the id {missing[0][:80]!r}; nothing was deleted")
            return writer.remove_ids(unique)

    def _with_similarity(self, query: PreparedVectors, hits: list[Hit]) -> list[Hit]:
        if not hits:
            return hits
        with self.snapshot() as snapshot:
            vectors, function = self.vectors_of_hits([(hit.id, hit.text) for hit in hits]), snapshot.similarity
        of_each = similarities(query[None], vectors, np.arange(len(hits))[None], function)[0]
        return [replace(hit, similarity=value) for hit, value in zip(hits, of_each.tolist(), strict=True)]

    def _encoded(self, queries: Sequence[str] | NDArray[np.floating], role: Role) -> NDArray[np.floating] | None:
        """Vectors of texts, or vectors as they are; None for an empty list of texts."""
        if isinstance(queries, np.ndarray):
            return queries
        if isinstance(queries, str):
            raise UserError("queries: give a list of texts, or an array of vectors")
        texts = as_list(queries)
        return self.encoder.encode(texts, prompt=self.encoder.prompts.of(role)) if texts else None


def _source(rows: Iterable[RowLike] | RowSource) -> RowSource:
    return rows if isinstance(rows, MemoryRows | FileRows) else MemoryRows(rows)
