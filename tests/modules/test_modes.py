"""Evaluation mode for a while."""

from __future__ import annotations

import pytest
from torch import nn

from opencse.modules.modes import evaluating


def test_every_part_gets_its_mode_back_even_after_an_error() -> None:
    first, second = nn.Dropout().train(), nn.Dropout().eval()
    network = nn.Sequential(first, second).train()
    second.eval()

    def fail() -> None:
        with evaluating(network):
            assert [part.training for part in (network, first, second)] == [False] * 3
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fail()
    assert (network.training, first.training, second.training) == (True, True, False)


def test_excepted_parts_keep_their_mode() -> None:
    head = nn.Sequential(nn.Dropout()).train()
    network = nn.Sequential(nn.Dropout(), head).train()
    with evaluating(network, but=[head]):
        assert head.training
        assert head[0].training
        assert not network[0].training
