"""What a negative source puts into the denominator: as vectors, of which any anchors' share can be made on demand."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from opencse.objective.losses import Columns, Similarity, pairwise_similarity, rowwise_similarity


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


@dataclass(frozen=True)
class Pairs:
    """The positives' similarities, given by their vectors: ``sim(left_i, right_i)``.

    Attributes:
        left: (N, d).
        right: (N, d).
        scoring: makes logits of them.
        scale: multiplies the logits.
    """

    left: Tensor
    right: Tensor
    scoring: Scoring
    scale: float = 1.0

    def similarity(self) -> Tensor:
        """(N,)."""
        return rowwise_similarity(self.left, self.right, self.scoring.similarity)


@dataclass(frozen=True)
class Own:
    """Columns that belong to the anchors' own examples: column k is one of example ``k % N``.

    Attributes:
        excluded: an anchor's own column is no negative of it.
        log_weight: added to the logits of an anchor's own columns, beside the weight of all.
        texts: an anchor's own column is left out too if it is the same text; else it stays, on purpose.
    """

    excluded: bool = False
    log_weight: float = 0.0
    texts: bool = False


@dataclass(frozen=True)
class VectorColumns:
    """Columns given by their vectors: ``sim(left_i, right_k) / tau``, never made as a whole unless asked for.

    Attributes:
        left: (N, d), the anchors' side of the similarity.
        right: (K, d), the columns.
        scoring: makes logits of the two.
        log_weight: added to all logits.
        own: which columns are the anchors' own; None if they are nobody's.
        anchor_keys: (N, 2) hashes of anchor's and positive's text.
        column_keys: (K, C) hashes of the texts behind a column, any of which makes it a duplicate; None if no
            text stands behind it.
    """

    left: Tensor
    right: Tensor
    scoring: Scoring
    log_weight: float = 0.0
    own: Own | None = None
    anchor_keys: Tensor | None = None
    column_keys: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(N, K)."""
        return len(self.left), len(self.right)

    @property
    def texts(self) -> tuple[Tensor, Tensor] | None:
        """The keys of anchors and columns, where equal ones are to be left out."""
        if not self.scoring.mask_duplicates or self.anchor_keys is None or self.column_keys is None:
            return None
        return self.anchor_keys, self.column_keys

    def dense(self) -> Columns:
        """All of them at once."""
        n, k = self.shape
        logits = self.scoring.logits(self.left, self.right)
        duplicates = None if self.texts is None else same_text(*self.texts)
        if self.own is None:
            return Columns(logits, self.log_weight, duplicates=duplicates)
        own = torch.eye(n, dtype=torch.bool, device=logits.device).repeat(1, k // n)
        if duplicates is not None and not self.own.texts:
            duplicates = duplicates & ~own
        weight: Tensor | float = self.log_weight
        if self.own.log_weight:
            weight = self.log_weight + self.own.log_weight * own.to(logits.dtype)
        return Columns(logits, weight, own if self.own.excluded else None, duplicates)


def same_text(anchors: Tensor, columns: Tensor) -> Tensor:
    """(N, A), (K, C) keys -> (N, K) bool: whether any text of column k is one of anchor i's."""
    same = torch.zeros(len(anchors), len(columns), dtype=torch.bool, device=anchors.device)
    for column in columns.unbind(1):
        for anchor in anchors.unbind(1):
            same |= column == anchor.unsqueeze(1)
    return same


AnyColumns = Columns | VectorColumns
"""Few columns may be given as logits, many by their vectors."""
