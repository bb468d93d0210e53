"""Searches many vectors approximately with FAISS: HNSW graphs, and inverted lists of product-quantised vectors."""

from __future__ import annotations

import errno
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from opencse.arrays import Floats, Integers
from opencse.errors import UserError, reason
from opencse.files import sync
from opencse.modules.similarity import Similarity
from opencse.progress import Progress
from opencse.ranking import SPARE, PreparedVectors, best_candidates, similarities
from opencse.search.database import how_to_rebuild, map_vectors, unique_name
from opencse.search.writer import Writer

if TYPE_CHECKING:
    from types import ModuleType

IndexKind = Literal["flat", "hnsw", "ivfpq"]
KINDS: tuple[str, ...] = get_args(IndexKind)
_CODES = 256
_PER_CODE = 39
"""Vectors that FAISS needs for each centroid."""
FEWEST = _CODES * _PER_CODE
"""Rows from which product quantisation can be trained."""
NEIGHBOURS, BREADTH_BUILD, BREADTH_SEARCH = 32, 200, 128
"""HNSW: links per node, and candidates when building and searching (M, efConstruction, efSearch)."""
PROBED = 0.1
"""IVF-PQ: share of the inverted lists that is searched."""
REFINED = 10
"""IVF-PQ: candidates per requested row, which are ranked again by their exact vectors."""
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
        self._stored = _stored_vectors(inner)

    @classmethod
    def read(cls, path: Path, slots: int, similarity: Similarity = Similarity.COSINE) -> ApproximateIndex:
        """Reads the index in a file.

        Raises:
            FileNotFoundError: if it does not exist.
            UserError: if it is damaged, or does not have ``slots`` rows.
        """
        faiss = require_faiss()
        if not path.is_file():
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        try:
            inner = faiss.read_index(str(path))
        except RuntimeError as error:
            raise UserError(f"{path}: damaged ({reason(error)[:80]}); {how_to_rebuild(path.parent)}") from None
        if inner.ntotal != slots:
            raise UserError(f"{path}: damaged (of {inner.ntotal:,} rows, not {slots:,}); {how_to_rebuild(path.parent)}")
        return cls(inner, similarity)

    def search(
        self, queries: PreparedVectors, vectors: PreparedVectors, k: int, living: Integers | None
    ) -> tuple[Integers, Floats]:
        """Finds about the k most similar rows to each query, scored by their exact vectors.

        An HNSW index stores these itself, and the search has just read them there, so the vector file is not read.

        Args:
            queries: (n, d) prepared for the index.
            vectors: (slots, d) the vector file.
            k: number of rows.
            living: positions that may be returned; None: all.

        Returns:
            (n, k) positions, best first, -1 where fewer were found, and their similarities.
        """
        faiss = require_faiss()
        is_ivf = isinstance(self._inner, faiss.IndexIVF)
        # Codes order candidates roughly, so more of them are scored again than of an HNSW graph.
        most = min(len(vectors), REFINED * k if is_ivf else k + SPARE)
        selector = None
        if living is not None:
            mask = np.zeros(len(vectors), dtype=bool)
            mask[living] = True
            # FAISS reads the bits of a byte from the lowest.
            selector = faiss.IDSelectorBitmap(np.packbits(mask, bitorder="little"))
        if is_ivf:
            parameters = faiss.SearchParametersIVF(sel=selector, nprobe=probed_lists(self._inner.nlist))
        else:
            parameters = faiss.SearchParametersHNSW(sel=selector, efSearch=max(BREADTH_SEARCH, 2 * most))
        _, positions = self._inner.search(np.ascontiguousarray(queries), most, params=parameters)
        exact_vectors = vectors if self._stored is None else self._stored
        exact = similarities(queries, exact_vectors, np.maximum(positions, 0), self._similarity)
        exact[positions < 0] = -np.inf
        return best_candidates(positions, exact, k)


def _stored_vectors(inner: Any) -> PreparedVectors | None:  # noqa: ANN401 - faiss is untyped
    """(slots, d) the vectors that an HNSW index stores, in its own memory; None for other kinds."""
    faiss = require_faiss()
    if not isinstance(inner, faiss.IndexHNSW):
        return None
    values = faiss.rev_swig_ptr(faiss.downcast_index(inner.storage).get_xb(), inner.ntotal * inner.d)
    stored: PreparedVectors = values.reshape(inner.ntotal, inner.d)
    return stored


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
        inner = empty_index(faiss, manifest.kind, vectors, manifest.similarity)
    if inner is None:
        writer.set_approximate(None)
        return
    progress.start(manifest.kind, len(vectors), begin)
    for start in range(begin, len(vectors), _CHUNK):
        inner.add(np.ascontiguousarray(vectors[start : start + _CHUNK]))
        progress.advance(min(start + _CHUNK, len(vectors)))
    progress.finish()
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


def require_enough(kind: str, rows: int) -> None:
    """Refuses product quantisation for too few rows.

    Raises:
        UserError: naming the number that is needed.
    """
    if kind == "ivfpq" and rows < FEWEST:
        raise UserError(
            f"ivfpq needs at least {FEWEST:,} texts to train its codes, not {rows:,}; use --kind flat, which is exact"
        )


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


def probed_lists(lists: int) -> int:
    """How many of the inverted lists are searched.

    Example:
        >>> probed_lists(4_000), probed_lists(20), probed_lists(5)
        (400, 8, 5)
    """
    return min(lists, max(8, math.ceil(PROBED * lists)))


def _metric(faiss: ModuleType, similarity: Similarity) -> int:
    return int(faiss.METRIC_INNER_PRODUCT if similarity.is_product else faiss.METRIC_L2)


def empty_index(faiss: ModuleType, kind: str, vectors: PreparedVectors, similarity: Similarity) -> Any:  # noqa: ANN401
    """Makes a FAISS index without rows, its codes trained; None where there are too few rows to train them.

    Args:
        faiss: the module.
        kind: ``hnsw`` or ``ivfpq``.
        vectors: (n, d) prepared, of which a sample trains the codes.
        similarity: the function that compares them.
    """
    rows, dimension = vectors.shape
    if kind == "hnsw":
        inner = faiss.index_factory(dimension, f"HNSW{NEIGHBOURS},Flat", _metric(faiss, similarity))
        inner.hnsw.efConstruction = BREADTH_BUILD
        return inner
    if rows < FEWEST:
        return None
    # 4 sqrt(n), as FAISS's guidelines advise, and enough rows to train each list.
    lists = min(int(4 * math.sqrt(rows)), rows // _PER_CODE)
    # A byte for about 8 dimensions; the parts have to divide them.
    parts = next(size for size in range(max(1, dimension // 8), 0, -1) if dimension % size == 0)
    # np: no order of the codes for polysemous search, which nothing asks for and takes seconds.
    inner = faiss.index_factory(dimension, f"IVF{lists},PQ{parts}x8np", _metric(faiss, similarity))
    random = np.random.default_rng(0)
    # FAISS trains on at most 256 points for each centroid, and warns of more.
    most = min(rows, _CODES * max(lists, _CODES))
    inner.train(np.ascontiguousarray(vectors[np.sort(random.choice(rows, most, replace=False))]))
    return inner
