"""Texts of a batch that are grouped by length for attention."""

from __future__ import annotations

import torch

from opencse.kernels import groups


def test_texts_go_into_groups_only_where_that_saves_half_of_the_scores() -> None:
    first = torch.zeros(200, dtype=torch.int64)
    assert groups.grouped([64, 3, 5], 64, first) is None
    assert groups.grouped([200, 180, 150], 200, first) is None
    lengths = [200, *[20] * 150, 90, 64]
    first = torch.tensor([0, *lengths]).cumsum(0)[: len(lengths)]
    found = groups.grouped(lengths, 200, first)
    assert found is not None
    assert sorted((one.shape, one.rows.tolist()) for one in found) == [
        ((1, 90), [151]),
        ((1, 200), [0]),
        ((151, 64), [*range(1, 151), 152]),
    ]
    assert sorted(torch.cat([one.packed_rows for one in found]).tolist()) == [*range(sum(lengths))]


def test_the_order_of_groups_puts_rows_back() -> None:
    lengths = [200, *[20] * 150, 90, 64]
    first = torch.tensor([0, *lengths]).cumsum(0)[: len(lengths)]
    grouped = groups.grouped(lengths, 200, first)
    assert grouped is not None
    rows = torch.cat([group.packed_rows for group in grouped])
    order = groups.order_of_groups(grouped, sum(lengths) + 3, by_row=False)
    assert torch.equal(rows[order[: sum(lengths)]], torch.arange(sum(lengths)))
    assert order[-3:].tolist() == [0, 0, 0]
    texts = torch.cat([group.rows for group in grouped])
    assert torch.equal(texts[groups.order_of_groups(grouped, len(lengths), by_row=True)], torch.arange(len(lengths)))
