"""The output of a training forward."""

from __future__ import annotations

import torch

from opencse.kernels.outputs import Encoded


def test_layers_and_logits_are_optional() -> None:
    encoded = Encoded(torch.zeros(2, 3))
    assert encoded.layers == {}
    assert encoded.masked_logits is None
