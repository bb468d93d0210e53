"""Searches many vectors approximately with an HNSW graph of FAISS."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from opencse.arrays import Floats, Integers
from opencse.errors import UserError, reason
from opencse.files import sync
from opencse.modules.similarity import Similarity
from opencse.progress import Counted, Progress
from opencse.ranking import SPARE, PreparedVectors, best_candidates, similarities
from opencse.search.database import how_to_rebuild, map_vectors, unique_name
from opencse.search.writer import Writer

if TYPE_CHECKING:
    from types import ModuleType

IndexKind = Literal["flat", "hnsw"]
KINDS: tuple[str, ...] = get_args(IndexKind)
NEIGHBOURS, BREADTH_BUILD, BREADTH_SEARCH = 32, 200, 128
"""Links per node, and candidates when building and searching (M, efConstruction, efSearch)."""
_CHUNK = 65_536


def require_faiss() -> ModuleType:
    """Imports FAISS.

    Raises:
        UserError: if it is not installed.
    """
    try:
        import faiss
    except ImportError:
        raise UserError(
            'faiss is not installed; pip install "opencse[serve]", or build the index with kind flat'
        ) from None
    module: ModuleType = faiss
    return module


class ApproximateIndex:
    """A FAISS index with one entry for each row of the vector file."""

    def __init__(self, inner: Any, similarity: Similarity = Similarity.COSINE) -> None:  # noqa: ANN401 - faiss is untyped
        self._inner = inner
        self._similarity = similarity
        stored = require_faiss().downcast_index(inner.storage).get_xb()
        self._stored: PreparedVectors = require_faiss().rev_swig_ptr(stored, inner.ntotal * inner.d)
        self._stored = self._stored.reshape(inner.ntotal, inner.d)

    @classmethod
    def read(cls, path: Path, slots: int, similarity: Similarity = Similarity.COSINE) -> ApproximateIndex:
        """Reads the index in a file.

        Raises:
            FileNotFoundError: if it does not exist.
            UserError: if it is damaged, of another kind, or does not have ``slots`` rows.
        """
        faiss = require_faiss()
        if not path.is_file():
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        try:
            inner = faiss.read_index(str(path))
        except RuntimeError as error:
            raise UserError(f"{path}: damaged ({reason(error)[:80]}); {how_to_rebuild(path.parent)}") from None
        if not isinstance(inner, faiss.IndexHNSW):
            raise UserError(f"{path}: of a kind that is no longer read; {how_to_rebuild(path.parent)}")
        if inner.ntotal != slots:
            raise UserError(f"{path}: damaged (of {inner.ntotal:,} rows, not {slots:,}); {how_to_rebuild(path.parent)}")
        return cls(inner, similarity)

    def search(self, queries: PreparedVectors, k: int, living: Integers | None) -> tuple[Integers, Floats]:
        """Finds about the k most similar rows to each query, scored by their exact vectors, which the graph has too.

        Args:
            queries: (n, d) prepared for the index.
            k: number of rows.
            living: positions that may be returned; None: all.

        Returns:
            (n, k) positions, best first, -1 where fewer were found, and their similarities.
        """
        faiss, selector = require_faiss(), None
        most = min(len(self._stored), k + SPARE)
        if living is not None:
            mask = np.zeros(len(self._stored), dtype=bool)
            mask[living] = True
            # FAISS reads the bits of a byte from the lowest.
            selector = faiss.IDSelectorBitmap(np.packbits(mask, bitorder="little"))
        parameters = faiss.SearchParametersHNSW(sel=selector, efSearch=max(BREADTH_SEARCH, 2 * most))
        _, positions = self._inner.search(np.ascontiguousarray(queries), most, params=parameters)
        exact = similarities(queries, self._stored, np.maximum(positions, 0), self._similarity)
        exact[positions < 0] = -np.inf
        return best_candidates(positions, exact, k)


def update_approximate_index(writer: Writer, progress: Progress) -> None:
    """Adds new rows to the approximate index, in a new file; does nothing for a flat index.

    Raises:
        UserError: if FAISS is not installed, or the file cannot be written.
    """
    manifest = writer.manifest
    if manifest.kind == "flat":
        return
    faiss = require_faiss()
    writer.flush()
    vectors = map_vectors(writer.folder, manifest)
    inner, begin = None, 0
    if manifest.engine is not None and not writer.compacted:
        inner = faiss.read_index(str(writer.folder / manifest.engine))
        begin = inner.ntotal
        if begin == len(vectors):
            return
    if inner is None:
        metric = faiss.METRIC_INNER_PRODUCT if manifest.similarity.is_product else faiss.METRIC_L2
        inner = faiss.index_factory(manifest.dimension, f"HNSW{NEIGHBOURS},Flat", metric)
        inner.hnsw.efConstruction = BREADTH_BUILD
    count = Counted(progress, manifest.kind)
    for start in range(begin, len(vectors), _CHUNK):
        inner.add(np.ascontiguousarray(vectors[start : start + _CHUNK]))
        count(min(start + _CHUNK, len(vectors)), len(vectors))
    name = unique_name("engine-", ".faiss")
    try:
        faiss.write_index(inner, str(writer.folder / name))
    except RuntimeError as error:
        (writer.folder / name).unlink(missing_ok=True)
        raise UserError(
            f"{writer.folder}: the {manifest.kind} index cannot be written ({reason(error)[-80:]}); is the disk full? "
            "Make room and run the same command again"
        ) from None
    sync(writer.folder / name)
    writer.set_approximate(name)


def require_metric(kind: str, similarity: Similarity) -> None:
    """Refuses an approximate index for a similarity that it does not support.

    Raises:
        UserError: naming both, with the fix.
    """
    if kind != "flat" and similarity is Similarity.MANHATTAN:
        raise UserError(
            f"{kind} searches by cosine, dot or euclidean, and this model compares by {similarity}; use --kind flat, "
            "which is exact"
        )
