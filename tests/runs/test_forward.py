"""What computes the forward pass of training, and what is refused."""

from __future__ import annotations

import pytest
import torch

from opencse import SentenceEncoder
from opencse.runs.forward import choose_forward


def test_packing_is_switched_on_where_it_can_be(encoder: SentenceEncoder) -> None:
    assert "training.packed = false" in choose_forward(encoder, False)
    assert str(encoder.computation) == "transformers"
    assert choose_forward(encoder, "auto") == "packed, no padding"
    assert str(encoder.computation) == "packed"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_layers_are_fused_on_a_gpu(encoder: SentenceEncoder) -> None:
    encoder.to("cuda")
    assert choose_forward(encoder, "auto") == "in fused layers, lengths multiples of 8"
    assert str(encoder.computation) == "fused"
