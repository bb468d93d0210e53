"""The weight of the vectors in a hybrid search, and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_WEIGHT = 0.5
"""Weight of the vectors in a hybrid search, where nothing is known of the model; see `weight_of_model`."""


@dataclass(frozen=True)
class HybridWeight:
    """The weight of the vectors in a hybrid search; BM25 has the rest.

    Attributes:
        value: from 0 (BM25 alone) to 1 (vectors alone).
        source: what it was fitted on, or who chose it, for the user.

    Example:
        >>> print(HybridWeight(0.4, "300 questions from the documents"))
        0.40 (300 questions from the documents)
    """

    value: float = DEFAULT_WEIGHT
    source: str = "the default"

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.source})"
