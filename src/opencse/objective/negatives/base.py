"""What every negative source is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Set
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from opencse.objective.losses import Columns, Similarity, pairwise_similarity, rowwise_similarity
from opencse.objective.part import Part
from opencse.objective.vectors.request import Request
from opencse.objective.vectors.sentences import Sentences
from opencse.objective.vectors.step import Representations


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

    @property
    def reads(self) -> Set[Request[Any]]:
        """The vectors of the views."""
        return {Sentences()}

    @property
    def averaged_with_plain(self) -> bool:
        """Whether the loss is the mean of those with and without this source's columns."""
        return False

    @abstractmethod
    def columns(self, reps: Representations, scoring: Scoring) -> Columns:
        """This source's columns of the denominator."""

    @abstractmethod
    def count(self, batch_size: int, hard: int) -> int:
        """Columns an anchor gets from this source in a full batch (for the plan that is printed)."""
