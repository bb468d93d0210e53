"""A moving average of an encoder: a copy that follows; what follows over many steps is tested with the queue."""

from __future__ import annotations

import torch
from torch import nn

from opencse.encoder.average import MovingAverage
from opencse.encoder.encoder import SentenceEncoder

MOMENTUM = 0.7


def test_a_pretrained_start_is_a_copy(encoder: SentenceEncoder) -> None:
    follower = MovingAverage(encoder, MOMENTUM).encoder
    own = dict(encoder.named_parameters())
    assert dict(follower.named_parameters()).keys() == own.keys()
    for name, p in follower.named_parameters():
        assert torch.equal(p, encoder.get_parameter(name))
        assert p.data_ptr() != encoder.get_parameter(name).data_ptr()


def output(encoder: SentenceEncoder, layer: int) -> nn.Linear:
    found = encoder.backbone.get_submodule(f"encoder.layer.{layer}.output.dense")
    assert isinstance(found, nn.Linear)
    return found


def test_tied_weights_are_moved_once_and_buffers_copied(encoder: SentenceEncoder) -> None:
    output(encoder, 1).weight = output(encoder, 0).weight
    encoder.register_buffer("counted", torch.tensor([3, 4]))
    average = MovingAverage(encoder, MOMENTUM)
    tied = output(average.encoder, 0).weight
    assert output(average.encoder, 1).weight is tied
    start = tied.clone()
    with torch.no_grad():
        output(encoder, 0).weight.add_(1.0)
    encoder.get_buffer("counted").add_(10)
    average.update(encoder)
    assert torch.allclose(tied, start + (1 - MOMENTUM), atol=1e-6)
    assert average.encoder.get_buffer("counted").tolist() == [13, 14]
