"""Changes of input embeddings: the same per row in any chunks, and their gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from opencse.objective.vectors.disturbance import GradientWatch, RowNoise, frozen

WORDS = torch.zeros(6, 2, 16)


def noisy(words: Tensor, generator: torch.Generator) -> Tensor:
    return words + torch.randn(words.shape, generator=generator)


def row_noise() -> RowNoise:
    return RowNoise(torch.Generator().manual_seed(4), noisy)


@pytest.mark.parametrize("order", [[0, 2, 4], [4, 0, 2], [2, 2, 4, 0]], ids=str)
def test_a_row_has_its_noise_in_any_chunks_and_order(order: list[int]) -> None:
    at_once, chunked = row_noise()(WORDS, 0), row_noise()
    assert at_once.any()
    for start in order:
        assert torch.equal(chunked(WORDS[start : start + 2], start), at_once[start : start + 2])


def test_the_gradient_of_each_chunk_is_stored() -> None:
    watch, weight = GradientWatch(), torch.full((2, 3, 4), 2.0, requires_grad=True)
    for start in (0, 2):
        torch.autograd.backward((watch(weight + 0, start) * (1 + start)).sum())
    assert torch.equal(watch.of(0, 2), torch.ones(2, 3, 4))
    assert torch.equal(watch.of(3, 1), torch.full((1, 3, 4), 3.0))
    assert weight.grad is not None
    with pytest.raises(RuntimeError, match="no gradient at the input embeddings"):
        watch.of(1, 2)  # rows of two chunks


def test_a_leaf_stops_the_gradient_there() -> None:
    watch, weight = GradientWatch(lambda words, start: words + 1, leaf=True), torch.ones(1, 2, 3, requires_grad=True)
    watched = watch(weight, 0)
    assert torch.equal(watched, torch.full((1, 2, 3), 2.0))
    torch.autograd.backward(watched.sum())
    assert weight.grad is None
    assert torch.equal(watch.of(0, 1), torch.ones(1, 2, 3))


def test_frozen_weights_take_a_gradient_again_afterwards() -> None:
    layer = nn.Linear(2, 2)
    layer.bias.requires_grad_(False)
    with frozen(layer, None):
        assert not any(parameter.requires_grad for parameter in layer.parameters())
    assert layer.weight.requires_grad
    assert not layer.bias.requires_grad
