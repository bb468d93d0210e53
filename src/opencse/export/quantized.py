"""Weights in 8 bits: a graph a quarter of the size, and what that costs."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opencse.evaluation.embedding import Encode
from opencse.evaluation.pairs import ScoredPairs
from opencse.statistics.correlation import cosine_of_rows, spearman


@dataclass(frozen=True)
class Int8Loss:
    """What 8 bits cost.

    Attributes:
        texts: how many were encoded both ways.
        cosine: mean cosine of a text's int8 vector and its float32 vector.
        worst_cosine: the smallest.
        ranking: Spearman correlation (x 100) of the cosines of neighbouring texts, int8 against float32.
        pairs: what the graded pairs are called.
        float32: Spearman (x 100) on the graded pairs in float32.
        int8: the same in int8.
    """

    texts: int
    cosine: float
    worst_cosine: float
    ranking: float
    pairs: str
    float32: float
    int8: float

    def lines(self) -> list[str]:
        """For the user."""
        return [
            f"int8       cosine to float32 {self.cosine:.4f} on average, {self.worst_cosine:.4f} at worst, over "
            f"{self.texts:,} texts; the ranks of their similarities agree to {self.ranking:.2f} (Spearman x 100)",
            f"int8       {self.int8:.2f} on {self.pairs} (Spearman x 100), float32 {self.float32:.2f}: "
            f"{self.int8 - self.float32:+.2f}",
        ]


def quantize(graph: Path, out: Path) -> None:
    """Writes ``graph`` with weights of 8 bits, one scale a row of output; activations are scaled as they come.

    Weights take 7 of the 8 bits: processors without VNNI would overflow on full ones.
    """
    from onnxruntime.quantization import quantize_dynamic

    root = logging.getLogger()
    level = root.level
    try:
        root.setLevel(logging.ERROR)  # advice to preprocess the graph, which torch's exporter has done
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            quantize_dynamic(graph, out, per_channel=True, reduce_range=True)
    finally:
        root.setLevel(level)


FEWEST = 3
"""Texts at least whose similarities are ranked."""


def loss_of(exact: Encode, quantized: Encode, texts: Sequence[str], pairs: ScoredPairs) -> Int8Loss:
    """What 8 bits cost.

    Args:
        exact: vectors of a list of texts in float32.
        quantized: the same in int8.
        texts: at least ``FEWEST``; the similarity of each to the one before it is what is ranked.
        pairs: graded pairs.
    """
    own = [np.asarray(encode(list(texts))) for encode in (exact, quantized)]
    cosines = cosine_of_rows(*own)
    similar = [cosine_of_rows(rows, np.roll(rows, 1, axis=0)) for rows in own]
    found = [
        spearman(cosine_of_rows(np.asarray(encode(pairs.first)), np.asarray(encode(pairs.second))), pairs.scores)
        for encode in (exact, quantized)
    ]
    return Int8Loss(
        texts=len(texts),
        cosine=float(cosines.mean()),
        worst_cosine=float(cosines.min()),
        ranking=100 * spearman(similar[1], similar[0]),
        pairs=f"{pairs.name} ({len(pairs)} pairs)",
        float32=100 * found[0],
        int8=100 * found[1],
    )
