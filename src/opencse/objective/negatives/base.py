"""What every negative source is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor

from opencse.objective.losses import Columns, Similarity, pairwise_similarity, rowwise_similarity
from opencse.objective.part import Part
from opencse.objective.representations import Needs, Representations


@dataclass(frozen=True)
class Scoring:
    """How similarities become logits, the same for every source of an objective.

    Attributes:
        similarity: cosine or dot.
        temperature: tau.
        mask_duplicates: whether equal texts are kept from being each other's negatives.
    """

    similarity: Similarity
    temperature: float
    mask_duplicates: bool

    def logits(self, anchors: Tensor, columns: Tensor) -> Tensor:
        """(N, d), (K, d) -> (N, K): sim(a_i, c_k) / tau."""
        return pairwise_similarity(anchors, columns, self.similarity) / self.temperature

    def own_logits(self, anchors: Tensor, others: Tensor) -> Tensor:
        """(N, d), (N, d) -> (N,): sim(a_i, o_i) / tau."""
        return rowwise_similarity(anchors, others, self.similarity) / self.temperature


class NegativeSource(Part, ABC):
    """Something an anchor is pushed from: representations in, columns out."""

    needs = Needs(sentences=True)
    averaged_with_plain = False
    """Whether the loss is the mean of those with and without this source's columns."""

    @abstractmethod
    def columns(self, reps: Representations, scoring: Scoring) -> Columns:
        """This source's columns of the denominator."""

    @abstractmethod
    def count(self, batch_size: int, hard: int) -> int:
        """Columns an anchor gets from this source in a full batch (for the plan that is printed)."""
