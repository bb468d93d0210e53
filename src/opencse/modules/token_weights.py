"""Weights of tokens in the mean of a sentence: sentence-transformers' WordWeights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from opencse.errors import UserError

FLOOR = 0.2
"""Weight of the most common token; the rarest has weight 1."""


class TokenWeights(nn.Module):
    """One weight for each token of the vocabulary, for a weighted mean of token vectors.

    Of the token vectors h_t of a text with the ids x_t, v = sum_t w(x_t) h_t / sum_t w(x_t). The weights are not
    trained; they go with the encoder and are saved with it.

    Attributes:
        weights: (V,) float32, from 0 on.

    Example:
        >>> texts = [np.array([0, 1]), np.array([0, 2])]  # token 0 is in both texts, token 3 in none
        >>> weights = TokenWeights.inverse_document_frequency(texts, 4)
        >>> [round(weight, 2) for weight in weights(torch.tensor([0, 1, 3])).tolist()]
        [0.2, 0.5, 1.0]
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
        """Weights tokens by how few of some texts they are in (Sparck Jones 1972), between ``floor`` and 1.

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
