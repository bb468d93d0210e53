"""The columns that do not count in a tile of similarities."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class LeftOut:
    """Sets the columns of a tile that do not count, in place and without a mask of the tile's size where they are few.

    Attributes:
        own: row and column indices of the anchors' own columns.
        rows: numbers of the rows that have duplicates.
        same: for each of ``rows``, True where a column is a duplicate.
        everywhere: a mask of all rows, for columns that were given as logits, or that a teacher leaves out.
    """

    own: tuple[Tensor, Tensor] | None = None
    rows: Tensor | None = None
    same: Tensor | None = None
    everywhere: Tensor | None = None

    def set(self, matrix: Tensor, value: float | bool) -> None:
        """Writes ``value`` into (R, K) ``matrix`` where a column does not count."""
        if self.everywhere is not None:
            matrix.masked_fill_(self.everywhere, value)
        if self.own is not None:
            matrix[self.own] = value
        if self.rows is not None and self.same is not None:
            matrix[self.rows] = matrix[self.rows].masked_fill_(self.same, value)

    def counts(self, like: Tensor) -> Tensor:
        """(R,) columns of each row that do not count."""
        if self.everywhere is not None:
            every = torch.zeros_like(like, dtype=torch.bool)
            self.set(every, True)
            return every.sum(dim=1).to(like.dtype)
        counts = like.new_zeros(len(like))
        if self.own is not None:
            counts += self.own[1].shape[1]
        if self.rows is not None and self.same is not None:
            counts[self.rows] += self.same.sum(dim=1).to(like.dtype)
        return counts
