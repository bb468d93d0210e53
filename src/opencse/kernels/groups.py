"""Texts of like length, whose attention is computed together: one long text does not make all others as dear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_SHORT = 64
"""Up to so many ids a batch stays whole: attention is a small part of such a step."""
_WORTH = 0.5
"""Share of the batch's scores that its groups may have at most; of more, it stays whole."""


@dataclass(frozen=True)
class Group:
    """Some texts of a packed batch, as a padded batch of their own.

    Attributes:
        shape: (rows, length) of the group.
        rows: (rows,) which texts of the batch.
        own: (t,) the packed rows of their tokens.
        places: (t,) of each token in the flattened (rows, length) batch of the group.
    """

    shape: tuple[int, int]
    rows: Tensor
    own: Tensor
    places: Tensor

    def bias(self, bias: Tensor | None) -> Tensor | None:
        """Its part of what is added to the batch's scores, (1 or rows, ..., 1 or length, length)."""
        if bias is None:
            return None
        length = self.shape[1]
        part = bias if bias.shape[0] == 1 else bias.index_select(0, self.rows)
        return part[..., :length, :length] if part.shape[-2] > 1 else part[..., :length]


def grouped(lengths: Sequence[int], length: int, first: Tensor) -> list[Group] | None:
    """The texts of a batch by length, from ``_SHORT`` on by powers of two; None where it had better stay whole.

    Args:
        lengths: ids of each text.
        length: that the batch is padded to.
        first: (rows,) packed row of each text's first token; the others follow it.
    """
    if length <= _SHORT:
        return None
    rows_of: dict[int, list[int]] = {}
    for row, own in enumerate(lengths):
        rows_of.setdefault(max(_SHORT, 1 << max(0, own - 1).bit_length()), []).append(row)
    longest = [max(lengths[row] for row in rows) for rows in rows_of.values()]
    scores = sum(len(rows) * most**2 for rows, most in zip(rows_of.values(), longest, strict=True))
    if scores > _WORTH * len(lengths) * length**2:
        return None
    device = first.device
    found = []
    for rows, most in zip(rows_of.values(), longest, strict=True):
        counts = torch.tensor([lengths[row] for row in rows], device=device)
        places = (torch.arange(most, device=device) < counts[:, None]).flatten().nonzero().squeeze(1)
        which = torch.tensor(rows, device=device)
        packed = first.index_select(0, which).index_select(0, places // most) + places % most
        found.append(Group((len(rows), most), which, packed, places))
    return found


def order(groups: Sequence[Group], count: int, *, by_row: bool) -> Tensor:
    """(count,) where each row of the batch is among those of the groups, one after the other.

    The packed rows that stand for padding, at the end of the ``count``, have the first token's.

    Args:
        groups: of the batch.
        count: of its packed rows, or of its texts.
        by_row: the groups have a row for each of their texts, not of their tokens.
    """
    places = torch.cat([group.rows if by_row else group.own for group in groups])
    found = torch.zeros(count, dtype=torch.int64, device=places.device)
    found[places] = torch.arange(len(places), device=places.device)
    return found
