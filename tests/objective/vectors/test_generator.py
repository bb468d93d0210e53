"""The generator of dropout: seeded within a block, as it was afterwards."""

from __future__ import annotations

import torch

from opencse.objective.vectors.generator import random_state, restore, seeded

CPU = torch.device("cpu")


def test_a_state_comes_back() -> None:
    before = random_state(CPU)
    first = torch.rand(3)
    assert not torch.equal(first, torch.rand(3))
    restore(before, CPU)
    assert torch.equal(torch.rand(3), first)


def test_seeded_draws_do_not_move_the_others() -> None:
    before = random_state(CPU)
    plain = torch.rand(4)
    restore(before, CPU)
    start = torch.rand(2)
    with seeded(7, CPU):
        inside = torch.rand(3)
    assert torch.equal(torch.cat([start, torch.rand(2)]), plain)
    assert torch.equal(inside, torch.rand(3, generator=torch.Generator().manual_seed(7)))
