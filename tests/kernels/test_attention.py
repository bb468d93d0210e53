"""Attention of packed rows is the formula on the padded batch, with its gradients, under one mask."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from opencse.kernels.attention import HeadPositions, attention

HEADS, HIDDEN, LENGTHS = 2, 6, [3, 5, 1, 4]


def plain(joined: Tensor, query: Tensor | None, places: Tensor, bias: Tensor, kept: Tensor, rate: float) -> Tensor:
    """By autograd, on the padded batch."""
    rows, length = len(LENGTHS), max(LENGTHS)
    padded = joined.new_zeros(rows * length, joined.shape[1]).index_copy(0, places, joined).view(rows, length, -1)
    *asked, k, v = (
        part.view(rows, length, HEADS, -1).transpose(1, 2) for part in padded.chunk(3 if query is None else 2, dim=2)
    )
    q = asked[0] if query is None else query.view(rows, 1, HEADS, -1).transpose(1, 2)
    weights = (q @ k.transpose(2, 3) / (HIDDEN / HEADS) ** 0.5 + bias).softmax(dim=3) * kept / (1 - rate)
    mixed: Tensor = (weights @ v).transpose(1, 2).flatten(2)
    return mixed.flatten(0, 1)[places] if query is None else mixed[:, 0]


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_it_is_the_formula_with_its_gradients(first: bool, padded: bool) -> None:
    torch.manual_seed(0)
    lengths = torch.tensor(LENGTHS if padded else [max(LENGTHS)] * len(LENGTHS))
    mask = torch.arange(max(LENGTHS)) < lengths[:, None]
    rows, length = mask.shape
    where, count, parts = mask.flatten().nonzero().squeeze(1), int(mask.sum()), 2 if first else 3
    joined = torch.randn(count, parts * HIDDEN, dtype=torch.float64, requires_grad=True)
    query = torch.randn(rows, HIDDEN, dtype=torch.float64, requires_grad=True) if first else None
    relative = torch.randn(1, HEADS, 1 if first else length, length, dtype=torch.float64, requires_grad=True)
    blocked = torch.zeros(rows, 1, 1, length, dtype=torch.float64).masked_fill_(~mask[:, None, None], float("-inf"))
    kept = (torch.rand(rows, HEADS, 1 if first else length, length) > 0.3).double()
    places = HeadPositions.of((rows, length), where, HEADS, parts)
    leaves = [joined, relative, *([] if query is None else [query])]

    def outcome(mixed: Tensor) -> list[Tensor]:
        weights = torch.randn(mixed.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        return [mixed, *torch.autograd.grad((mixed * weights).sum(), leaves)]

    ours = outcome(attention(joined, query, places, relative + blocked, kept, 0.3))
    expected = outcome(plain(joined, query, where, relative + blocked, kept, 0.3))
    assert all(part.abs().max() > 0.1 for part in expected)
    for found, wanted in zip(ours, expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
