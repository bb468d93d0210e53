"""The columns that do not count: what is set, and how many are counted, in every way of naming them."""

from __future__ import annotations

import itertools

import torch

from opencse.objective.left_out import LeftOut


def test_what_is_set_is_counted_once() -> None:
    everywhere = torch.tensor([[True, False, False], [False, False, True]])
    own = (torch.tensor([[0], [1]]), torch.tensor([[0], [1]]))
    rows, same = torch.tensor([1]), torch.tensor([[True, False, True]])
    wanted = {"everywhere": [(0, 0), (1, 2)], "own": [(0, 0), (1, 1)], "same": [(1, 0), (1, 2)]}
    for names in itertools.product([False, True], repeat=3):
        chosen = dict(zip(wanted, names, strict=True))
        out = LeftOut(
            own if chosen["own"] else None,
            rows if chosen["same"] else None,
            same if chosen["same"] else None,
            everywhere if chosen["everywhere"] else None,
        )
        cells = {cell for name, is_chosen in chosen.items() if is_chosen for cell in wanted[name]}
        matrix = torch.zeros(2, 3)
        out.set(matrix, 7.0)
        assert {tuple(cell) for cell in matrix.nonzero().tolist()} == cells
        assert out.counts(matrix).tolist() == [float(sum(row == r for row, _ in cells)) for r in range(2)]
