"""Projects vectors to two dimensions, for the map of an index: PCA or t-SNE."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from opencse.environment import require_packages
from opencse.modules.similarity import unit_rows

Method = Literal["pca", "tsne"]
_COMPONENTS = 50
_PERPLEXITY = 30


def project(vectors: NDArray[np.floating], method: Method = "pca") -> NDArray[np.float64]:
    """Projects (n, d) vectors to (n, 2) points within [-1, 1]; deterministic.

    ``pca``: the two directions of largest variance of the L2-normalised vectors, on one scale. ``tsne``: t-SNE (van der
    Maaten and Hinton, 2008) of their first 50 principal components, which keeps neighbours together while distances
    between groups mean little; with fewer than 5 vectors ``pca`` is used.

    Example:
        >>> points = project(np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]))
        >>> points.shape, float(np.abs(points).max())
        ((3, 2), 1.0)
    """
    unit = unit_rows(vectors).astype(np.float64)
    if len(unit) < 2:
        return np.zeros((len(unit), 2))
    centred = unit - unit.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    leading = directions[:_COMPONENTS]
    signs = np.sign(np.take_along_axis(leading, np.abs(leading).argmax(axis=1, keepdims=True), axis=1))
    points = centred @ (leading * signs).T
    if method == "tsne" and len(unit) >= 5 and points.std() > 0:
        require_packages("tsne", "train", "sklearn")
        from sklearn.manifold import TSNE  # type: ignore[import-untyped]

        perplexity = min(_PERPLEXITY, (len(unit) - 1) / 3)
        points = TSNE(2, init="pca", perplexity=perplexity, random_state=0).fit_transform(points)
    flat = np.zeros((len(unit), 2))
    flat[:, : min(2, points.shape[1])] = points[:, :2]
    flat -= (flat.max(axis=0) + flat.min(axis=0)) / 2
    return np.asarray(flat / max(float(np.abs(flat).max()), 1e-12), dtype=np.float64)


def sampled(rows: int, most: int) -> list[range]:
    """Blocks of row numbers, evenly spread, of about ``most`` rows in total; all rows if there are no more.

    Example:
        >>> sampled(3, 10), len(sampled(10_000, 2_000))
        ([range(0, 3)], 200)
    """
    if rows <= most:
        return [range(rows)] if rows else []
    block = max(1, most // 200)
    starts = np.linspace(0, rows - block, most // block).round().astype(int)
    return [range(start, start + block) for start in starts.tolist()]
