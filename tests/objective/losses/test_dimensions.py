"""The losses between dimensions are what the terms compute (their loops are in the tests of the terms)."""

from __future__ import annotations

import torch

from opencse.objective.losses.dimensions import barlow_twins, dcl
from opencse.objective.terms.barlow_twins import BarlowTwins
from opencse.objective.terms.dcl import DCL
from opencse.objective.vectors.step import Representations


def test_the_terms_are_the_functions_of_plain_tensors() -> None:
    reps = Representations.of(*torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(5), dtype=torch.float64))
    twins = BarlowTwins(BarlowTwins.Settings(off_diagonal=0.02, centre=True))
    assert twins.loss(reps) == barlow_twins(reps.anchor, reps.positive, off_diagonal=0.02, centre=True)
    for scaling in ("paper", "reference"):
        term = DCL(DCL.Settings(temperature=3.0, scaling=scaling))
        assert term.loss(reps) == dcl(reps.anchor, reps.positive, temperature=3.0, scaling=scaling)
