"""The losses at the tokens against loops."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from opencse.objective.losses.tokens import masked_lm, replaced_tokens


def test_the_loss_of_replaced_tokens_by_loops() -> None:
    random = torch.Generator().manual_seed(3)
    logits = torch.randn(3, 4, 2, generator=random, dtype=torch.float64)
    replaced = torch.randint(2, (3, 4), generator=random)
    losses = replaced_tokens(logits, replaced)
    for row, token in itertools.product(range(3), range(4)):
        exponentials = [math.exp(value) for value in logits[row, token].tolist()]
        share = exponentials[int(replaced[row, token])] / sum(exponentials)
        assert losses[row, token].item() == pytest.approx(-math.log(share), rel=1e-12)


def test_the_loss_of_hidden_tokens_by_loops() -> None:
    random = torch.Generator().manual_seed(4)
    logits = torch.randn(5, 6, generator=random, dtype=torch.float64)
    labels = torch.randint(6, (5,), generator=random)
    losses = masked_lm(logits, labels)
    for position in range(5):
        exponentials = [math.exp(value) for value in logits[position].tolist()]
        share = exponentials[int(labels[position])] / sum(exponentials)
        assert losses[position].item() == pytest.approx(-math.log(share), rel=1e-12)
