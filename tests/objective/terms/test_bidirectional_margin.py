"""SNCSE's term takes the views and the negations, and its margins change it."""

from __future__ import annotations

import pytest
import torch

from opencse.objective.losses import bidirectional_margin
from opencse.objective.terms.bidirectional_margin import BidirectionalMargin
from opencse.objective.vectors.step import Representations


def test_term_is_the_loss_of_views_and_negations() -> None:
    generator = torch.Generator().manual_seed(0)
    a, p, n = (torch.randn(6, 4, generator=generator) for _ in range(3))
    values = set()
    for alpha, beta in ((0.1, 0.3), (0.2, 0.3), (0.1, 0.6)):
        term = BidirectionalMargin(BidirectionalMargin.Settings(alpha=alpha, beta=beta))
        reps = Representations(a, p, a[:, None][:, :0], torch.zeros(6, 2), {term.request: n})
        loss = term.loss(reps)
        assert torch.equal(loss, bidirectional_margin(a, p, n, alpha=alpha, beta=beta))
        values.add(float(loss))
    assert len(values) == 3


def test_margins_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(ValueError, match="alpha is the smaller margin"):
        BidirectionalMargin.Settings(alpha=0.4, beta=0.3)
