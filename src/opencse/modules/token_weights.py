"""How much each token counts in the mean of its sentence: sentence-transformers' WordWeights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from opencse.errors import UserError

FLOOR = 0.2
"""What the commonest token counts, where the rarest counts 1."""


class TokenWeights(nn.Module):
    """One weight a token of the vocabulary, for a weighted mean of token vectors.

    Of the token vectors h_t of a text with the ids x_t, v = sum_t w(x_t) h_t / sum_t w(x_t). The weights are not
    trained; they go with the encoder and are saved with it.

    Attributes:
        weights: (V,) float32, from 0 on.
    """

    weights: Tensor

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.register_buffer("weights", weights.detach().float().clone())

    def forward(self, input_ids: Tensor) -> Tensor:
        """(rows, length) ids -> the weight of each, float32."""
        return self.weights[input_ids]

    @classmethod
    def inverse_document_frequency(
        cls, texts: Iterable[NDArray[np.integer]], vocabulary: int, floor: float = FLOOR
    ) -> Self:
        """Weights by how few of some texts a token is in (Sparck Jones 1972), between ``floor`` and 1.

        w(x) = floor + (1 - floor) idf(x) / max idf, with idf(x) = ln((N + 1) / (n(x) + 1)), of N texts, n(x) of which
        hold x. What every text holds ([CLS] and [SEP] too) counts ``floor``; what none holds counts 1.

        Args:
            texts: the ids of each text.
            vocabulary: V.
            floor: from 0 to 1; 1 makes all weights equal.

        Raises:
            UserError: where there are no texts.
        """
        count, text_counts = 0, np.zeros(vocabulary, dtype=np.int64)
        for ids in texts:
            text_counts[np.unique(ids)] += 1
            count += 1
        if not count:
            raise UserError("no texts to weigh tokens by")
        return cls(torch.from_numpy(_weights(text_counts, count, floor)))


def _weights(text_counts: NDArray[np.int64], count: int, floor: float) -> NDArray[np.float32]:
    idf = np.log((count + 1) / (text_counts + 1))
    return (floor + (1 - floor) * idf / max(float(idf.max()), np.finfo(np.float64).tiny)).astype(np.float32)
