"""Approximate search by FAISS: HNSW graphs and inverted lists of product-quantised vectors."""

from __future__ import annotations

import errno
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import Floats, Integers
from opencse.errors import UserError, reason
from opencse.io import sync
from opencse.modules.similarity import Similarity
from opencse.progress import Progress
from opencse.ranking import SPARE, PreparedVectors, similarities
from opencse.search.database import mapped, new_name
from opencse.search.folder import note
from opencse.search.writer import Writer

if TYPE_CHECKING:
    from types import ModuleType

Kind = Literal["flat", "hnsw", "ivfpq"]
KINDS: tuple[str, ...] = get_args(Kind)
_CODES = 256
_PER_CODE = 39
"""Vectors that FAISS wants to see of each centroid."""
FEWEST = _CODES * _PER_CODE
_NEIGHBOURS, _BREADTH_BUILD, _BREADTH_SEARCH = 32, 200, 128
_PROBED = 0.1
_REFINED = 10
"""Candidates of product quantisation for each row asked for; the true vectors decide among them."""
_CHUNK = 65_536


def require_faiss() -> ModuleType:
    """FAISS, imported.

    Raises:
        UserError: where it is not installed.
    """
    try:
        import faiss
    except ImportError:
        raise UserError(
            'faiss is not installed; pip install "opencse[serve]", or build the index with kind flat'
        ) from None
    module: ModuleType = faiss
    return module


class Engine:
    """An approximate index over the vector file, with one entry for each of its rows."""

    def __init__(self, inner: Any, similarity: Similarity = Similarity.COSINE) -> None:  # noqa: ANN401 - faiss is untyped
        self._inner = inner
        self._similarity = similarity

    @classmethod
    def read(cls, path: Path, slots: int, similarity: Similarity = Similarity.COSINE) -> Engine:
        """The index in a file.

        Raises:
            UserError: if it is damaged, or not of ``slots`` rows.
        """
        faiss = require_faiss()
        if not path.is_file():
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        try:
            inner = faiss.read_index(str(path))
        except RuntimeError as error:
            raise UserError(f"{path}: damaged ({reason(error)[:80]}); build the index again") from None
        if inner.ntotal != slots:
            raise UserError(f"{path}: damaged (of {inner.ntotal:,} rows, not {slots:,}); build the index again")
        return cls(inner, similarity)

    def search(
        self, queries: PreparedVectors, vectors: PreparedVectors, k: int, alive: Integers | None
    ) -> tuple[Integers, Floats]:
        """The k rows found nearest to each query, scored by their true vectors.

        Args:
            queries: (n, d) prepared for the index.
            vectors: (slots, d) the vector file.
            k: how many.
            alive: the places that may be found; None: all.

        Returns:
            (n, k) places, the nearest first, -1 where fewer were found, and their similarities.
        """
        faiss = require_faiss()
        lists = isinstance(self._inner, faiss.IndexIVF)
        most = min(len(vectors), _REFINED * k if lists else k + SPARE)
        chosen = None
        if alive is not None:
            mask = np.zeros(len(vectors), dtype=bool)
            mask[alive] = True
            chosen = faiss.IDSelectorBitmap(np.packbits(mask, bitorder="little"))
        if lists:
            probed = max(8, math.ceil(_PROBED * self._inner.nlist))
            how = faiss.SearchParametersIVF(sel=chosen, nprobe=min(probed, self._inner.nlist))
        else:
            how = faiss.SearchParametersHNSW(sel=chosen, efSearch=max(_BREADTH_SEARCH, 2 * most))
        _, found = self._inner.search(np.ascontiguousarray(queries), most, params=how)
        scores = np.where(found < 0, -np.inf, similarities(queries, vectors, np.maximum(found, 0), self._similarity))
        order = np.lexsort((found, -scores))[:, :k]
        return np.take_along_axis(found, order, axis=1), np.take_along_axis(scores, order, axis=1)


def write_engine(writer: Writer, progress: Progress) -> None:
    """Brings the approximate index up to the rows that ``writer`` has, in a new file; nothing for a flat one.

    Raises:
        UserError: where FAISS is not installed.
    """
    facts = writer.facts
    if facts.kind == "flat":
        return
    faiss = require_faiss()
    writer.flush()
    vectors = mapped(writer.folder, facts)
    inner, begin = None, 0
    if facts.engine is not None and not writer.compacted:
        inner = faiss.read_index(str(writer.folder / facts.engine))
        begin = inner.ntotal
        if begin == len(vectors):
            return
    if inner is None:
        inner = _new(faiss, facts.kind, vectors, facts.similarity)
    if inner is None:
        writer.engine(None)
        return
    progress.start(facts.kind, len(vectors), begin)
    for start in range(begin, len(vectors), _CHUNK):
        inner.add(np.ascontiguousarray(vectors[start : start + _CHUNK]))
        progress.advance(min(start + _CHUNK, len(vectors)))
    progress.finish()
    name = new_name("engine-", ".faiss")
    note(writer.folder, name)
    try:
        faiss.write_index(inner, str(writer.folder / name))
    except RuntimeError as error:
        (writer.folder / name).unlink(missing_ok=True)
        raise UserError(
            f"{writer.folder}: the {facts.kind} index cannot be written ({reason(error)[-80:]}); is the disk full? "
            "Make room and run the same command again"
        ) from None
    sync(writer.folder / name)
    writer.engine(name)


def require_enough(kind: str, rows: int) -> None:
    """Refuses product quantisation of too few rows.

    Raises:
        UserError: saying how many are needed.
    """
    if kind == "ivfpq" and rows < FEWEST:
        raise UserError(
            f"ivfpq learns its codes from at least {FEWEST:,} texts, and there are {rows:,}; take flat, which is exact"
        )


def require_metric(kind: str, similarity: Similarity) -> None:
    """Refuses an approximate index of a similarity that it cannot search by.

    Raises:
        UserError: naming both, with the fix.
    """
    if kind != "flat" and similarity is Similarity.MANHATTAN:
        raise UserError(
            f"{kind} searches by cosine, dot or euclidean, and this model compares by {similarity}; take flat, which "
            "is exact"
        )


def _metric(faiss: ModuleType, similarity: Similarity) -> int:
    return int(faiss.METRIC_INNER_PRODUCT if similarity.is_product else faiss.METRIC_L2)


def _new(faiss: ModuleType, kind: str, vectors: NDArray[np.float32], similarity: Similarity) -> Any:  # noqa: ANN401
    """An empty index, its codes learnt; None where an index has become too small for that."""
    rows, dimension = vectors.shape
    if kind == "hnsw":
        inner = faiss.index_factory(dimension, f"HNSW{_NEIGHBOURS},Flat", _metric(faiss, similarity))
        inner.hnsw.efConstruction = _BREADTH_BUILD
        return inner
    if rows < FEWEST:
        return None
    lists = min(int(4 * math.sqrt(rows)), rows // _PER_CODE)
    parts = next(size for size in range(max(1, dimension // 8), 0, -1) if dimension % size == 0)
    inner = faiss.index_factory(dimension, f"IVF{lists},PQ{parts}x8", _metric(faiss, similarity))
    random = np.random.default_rng(0)
    most = min(rows, _CODES * max(lists, _CODES))
    inner.train(np.ascontiguousarray(vectors[np.sort(random.choice(rows, most, replace=False))]))
    return inner
