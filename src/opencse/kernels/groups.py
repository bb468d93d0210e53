"""Groups the texts of a batch by length for attention, so that one long text does not slow down all others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_SHORT = 64
"""Batches of texts up to this many ids are not split: attention is a small part of such a step."""
_WORTH = 0.5
"""Largest share of the batch's scores that its groups may have; otherwise the batch is not split."""


@dataclass(frozen=True)
class Group:
    """Some texts of a packed batch, as a padded batch of their own.

    Attributes:
        shape: (rows, length) of the group.
        rows: (rows,) which texts of the batch.
        packed_rows: (t,) the packed rows of their tokens.
        positions: (t,) of each token in the flattened (rows, length) batch of the group.
    """

    shape: tuple[int, int]
    rows: Tensor
    packed_rows: Tensor
    positions: Tensor

    def bias(self, bias: Tensor | None) -> Tensor | None:
        """The group's part of the batch's bias of attention scores, (1 or rows, ..., 1 or length, length)."""
        if bias is None:
            return None
        length = self.shape[1]
        part = bias if bias.shape[0] == 1 else bias.index_select(0, self.rows)
        return part[..., :length, :length] if part.shape[-2] > 1 else part[..., :length]


def grouped(lengths: Sequence[int], length: int, first: Tensor) -> list[Group] | None:
    """The texts of a batch by length, from ``_SHORT`` on by powers of two; None where splitting it would not pay.

    Args:
        lengths: ids of each text.
        length: that the batch is padded to.
        first: (rows,) packed row of each text's first token; the others follow it.
    """
    if length <= _SHORT:
        return None
    rows_of: dict[int, list[int]] = {}
    for row, tokens in enumerate(lengths):
        rows_of.setdefault(max(_SHORT, 1 << max(0, tokens - 1).bit_length()), []).append(row)
    longest = [max(lengths[row] for row in rows) for rows in rows_of.values()]
    scores = sum(len(rows) * most**2 for rows, most in zip(rows_of.values(), longest, strict=True))
    if scores > _WORTH * len(lengths) * length**2:
        return None
    device = first.device
    groups = []
    for rows, most in zip(rows_of.values(), longest, strict=True):
        counts = torch.tensor([lengths[row] for row in rows], device=device)
        positions = (torch.arange(most, device=device) < counts[:, None]).flatten().nonzero().squeeze(1)
        which = torch.tensor(rows, device=device)
        packed = first.index_select(0, which).index_select(0, positions // most) + positions % most
        groups.append(Group((len(rows), most), which, packed, positions))
    return groups


def order_of_groups(groups: Sequence[Group], count: int, *, by_row: bool) -> Tensor:
    """(count,) the position of each row of the batch in the rows of all groups, one group after the other.

    The packed rows of padding, at the end of the ``count``, have the position of the first token.

    Args:
        groups: of the batch.
        count: of its packed rows, or of its texts.
        by_row: the groups have one row per text, not one per token.
    """
    rows = torch.cat([group.rows if by_row else group.packed_rows for group in groups])
    position_of_row = torch.zeros(count, dtype=torch.int64, device=rows.device)
    position_of_row[rows] = torch.arange(len(rows), device=rows.device)
    return position_of_row
