"""Quantises an ONNX graph to 8 bits, a quarter of the size, and measures the loss of quality."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opencse.evaluation.embedding import Encode
from opencse.evaluation.pairs import ScoredPairs
from opencse.numerals import number_of
from opencse.statistics.correlation import cosine_of_rows, spearman


@dataclass(frozen=True)
class Int8Loss:
    """The loss of quality in 8 bits.

    Attributes:
        texts: number of texts that were encoded both ways.
        cosine: mean cosine of a text's int8 vector and its float32 vector.
        worst_cosine: the smallest.
        ranking: Spearman correlation (x 100) of the cosines of neighbouring texts, int8 against float32.
        pairs: name of the graded pairs.
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
        """Lines for the user."""
        return [
            f"int8       cosine to float32 {self.cosine:.4f} on average, {self.worst_cosine:.4f} at worst, over "
            f"{number_of(self.texts, 'text')}; the ranks of their similarities agree to {self.ranking:.2f} (Spearman "
            "x 100)",
            f"int8       {self.int8:.2f} on {self.pairs} (Spearman x 100), float32 {self.float32:.2f}: "
            f"{self.int8 - self.float32:+.2f}",
        ]


def quantize(graph: Path, out: Path) -> None:
    """Writes ``graph`` with weights of 8 bits, one scale per row of output; activations are scaled at run time.

    Weights take 7 of the 8 bits: processors without VNNI would overflow on full ones.
    """
    from onnxruntime.quantization import quantize_dynamic

    root = logging.getLogger()
    level = root.level
    silent = (
        logging.NullHandler()
    )  # without a handler, a library's `logging.warning` would leave one on stderr for good
    try:
        root.addHandler(silent)
        root.setLevel(logging.ERROR)  # advice to preprocess the graph, which torch's exporter has done
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            quantize_dynamic(graph, out, per_channel=True, reduce_range=True)
    finally:
        root.setLevel(level)
        root.removeHandler(silent)


FEWEST = 3
"""Smallest number of texts whose similarities can be ranked."""


def loss_of(exact: Encode, quantized: Encode, texts: Sequence[str], pairs: ScoredPairs) -> Int8Loss:
    """Measures the loss of quality in 8 bits.

    Args:
        exact: vectors of a list of texts in float32.
        quantized: the same in int8.
        texts: at least ``FEWEST``; the similarities of each text to the one before it are ranked.
        pairs: graded pairs.
    """
    vectors = [np.asarray(encode(list(texts))) for encode in (exact, quantized)]
    cosines = cosine_of_rows(*vectors)
    similar = [cosine_of_rows(rows, np.roll(rows, 1, axis=0)) for rows in vectors]
    correlations = [
        spearman(cosine_of_rows(np.asarray(encode(pairs.first)), np.asarray(encode(pairs.second))), pairs.scores)
        for encode in (exact, quantized)
    ]
    return Int8Loss(
        texts=len(texts),
        cosine=float(cosines.mean()),
        worst_cosine=float(cosines.min()),
        ranking=100 * spearman(similar[1], similar[0]),
        pairs=f"{pairs.name} ({number_of(len(pairs), 'pair')})",
        float32=100 * correlations[0],
        int8=100 * correlations[1],
    )
