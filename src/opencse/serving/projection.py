"""The map of a corpus: vectors laid out in two dimensions."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from opencse.environment import require_packages
from opencse.modules.rows import unit_rows

Method = Literal["pca", "tsne"]
_COMPONENTS = 50
_PERPLEXITY = 30


def project(vectors: NDArray[np.floating], method: Method = "pca") -> NDArray[np.float64]:
    """(n, d) -> (n, 2) places within [-1, 1]; the same vectors have the same places.

    ``pca``: the two directions of most variance of the L2-normalised vectors, one scale for both. ``tsne``: t-SNE (van
    der Maaten and Hinton, 2008) of their first 50 principal components, where neighbours count and distances between
    groups say little; of fewer than 5 vectors it is ``pca`` too.
    """
    unit = unit_rows(vectors).astype(np.float64)
    if len(unit) < 2:
        return np.zeros((len(unit), 2))
    centred = unit - unit.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    leading = directions[:_COMPONENTS]
    signs = np.sign(np.take_along_axis(leading, np.abs(leading).argmax(axis=1, keepdims=True), axis=1))
    places = centred @ (leading * signs).T
    if method == "tsne" and len(unit) >= 5 and places.std() > 0:
        require_packages("tsne", "train", "sklearn")
        from sklearn.manifold import TSNE  # type: ignore[import-untyped]

        perplexity = min(_PERPLEXITY, (len(unit) - 1) / 3)
        places = TSNE(2, init="pca", perplexity=perplexity, random_state=0).fit_transform(places)
    flat = np.zeros((len(unit), 2))
    flat[:, : min(2, places.shape[1])] = places[:, :2]
    flat -= (flat.max(axis=0) + flat.min(axis=0)) / 2
    return np.asarray(flat / max(float(np.abs(flat).max()), 1e-12), dtype=np.float64)


def sampled(rows: int, most: int) -> list[range]:
    """Blocks of at most ``most`` of ``rows`` rows in all, evenly spread over them; all rows if they are few."""
    if rows <= most:
        return [range(rows)] if rows else []
    block = max(1, most // 200)
    starts = np.linspace(0, rows - block, most // block).round().astype(int)
    return [range(start, start + block) for start in starts.tolist()]
