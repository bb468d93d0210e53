"""What computes the forward pass of training, and what is refused."""

from __future__ import annotations

from opencse import SentenceEncoder
from opencse.runs.forward import choose_forward


def test_packing_is_switched_on_where_it_can_be(encoder: SentenceEncoder) -> None:
    assert "training.packed = false" in choose_forward(encoder, False)
    assert str(encoder.computation) == "transformers"
    assert choose_forward(encoder, "auto") == "packed, no padding"
    assert str(encoder.computation) == "packed"
