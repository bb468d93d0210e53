"""Gradient caching: the plain step's gradients, whatever the recipe; networks and noise in chunks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from opencse.objective.vectors.chunks import WHOLE, Chunks, through
from opencse.objective.vectors.represent import GradientWatch, RowNoise
from steps import NAMES, gap, gradients, prepared

ALL = 10**6


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_the_plain_steps(name: str, lively_folder: Path, tmp_path: Path, sentences: list[str]) -> None:
    """Without dropout those of all rows at once; with it those of the same chunks with their graphs kept."""
    run = prepared(name, lively_folder, tmp_path, sentences, "encoder.layers=2")
    plain = gradients(run, WHOLE, dropout=False)
    assert any(gradient.abs().max() > 1e-6 for gradient in plain[0].values())
    still = gradients(run, Chunks(5), dropout=False)
    assert gap(still[:-1], plain[:-1]) < 1e-10
    kept = gradients(run, Chunks(5, keep=ALL), dropout=True)
    again = gradients(run, Chunks(5), dropout=True)
    assert gap(again, kept) < 1e-10
    if run.encoder.has_dropout:
        assert gap(kept[:1], plain[:1]) > 1e-4, "dropout was on"


@pytest.mark.parametrize("packed", [False, True])
def test_bf16_takes_the_gradient_of_every_weight(
    packed: bool, lively_folder: Path, tmp_path: Path, sentences: list[str]
) -> None:
    """A weight that autocast had cast without graph would get none from the chunk whose graph is kept."""
    settings = ("training.precision=bf16", f"training.packed={str(packed).lower()}")
    run = prepared("simcse", lively_folder, tmp_path, sentences, *settings)
    run.encoder.float()
    kept = gradients(run, Chunks(5, keep=ALL), dropout=True)
    again = gradients(run, Chunks(5), dropout=True)
    assert gap(again[:1], kept[:1]) < 1e-3
    assert all(gradient.any() for name, gradient in again[0].items() if "key.bias" not in name)
    assert len(again[0]) > 20


class Gated(nn.Module):
    """Two layers with dropout between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(4, 6), nn.Dropout(0.5), nn.Linear(6, 3)
        self.calls: list[tuple[int, bool]] = []

    def forward(self, rows: Tensor) -> Tensor:
        self.calls.append((len(rows), torch.is_grad_enabled()))
        made: Tensor = self.last(self.drop(torch.tanh(self.first(rows))))
        return made


def taken(network: Gated, inputs: Tensor, chunks: Chunks) -> list[Tensor]:
    """The outcome, and the gradients of its weighted sum for the inputs and the weights."""
    network.zero_grad()
    leaf = inputs.clone().requires_grad_()
    made = through(
        network,
        lambda start, stop, rows: network(rows) * (1 + start + torch.arange(stop - start)[:, None]),
        leaf,
        chunks,
    )
    return with_gradients(made, leaf, network)


def with_gradients(made: Tensor, leaf: Tensor, network: Gated) -> list[Tensor]:
    torch.autograd.backward([(made * torch.linspace(-1, 2, made.numel()).view_as(made)).sum()])
    assert leaf.grad is not None
    return [made.detach(), leaf.grad, *(p.grad.clone() for p in network.parameters() if p.grad is not None)]


@pytest.fixture
def network() -> Gated:
    torch.manual_seed(1)
    return Gated().double()


@pytest.fixture
def inputs() -> Tensor:
    return torch.randn(7, 4, generator=torch.Generator().manual_seed(2)).double()


@pytest.mark.parametrize("chunks", [Chunks(1), Chunks(3), Chunks(3, keep=2), Chunks(9)], ids=str)
def test_chunks_give_the_gradients_of_all_rows_at_once(network: Gated, inputs: Tensor, chunks: Chunks) -> None:
    def weighted(rows: Chunks) -> list[Tensor]:
        return taken(network.eval(), inputs, rows)

    whole = weighted(WHOLE)
    assert len(whole) == 6
    assert all(one.any() for one in whole)
    for one, other in zip(weighted(chunks), _by_start(network, inputs, chunks), strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=0)


def _by_start(network: Gated, inputs: Tensor, chunks: Chunks) -> list[Tensor]:
    """The same by one graph over all chunks; a row is told where its chunk begins."""
    network.zero_grad()
    leaf = inputs.clone().requires_grad_()
    parts = [
        network(leaf[a:b]) * (1 + a + torch.arange(b - a)[:, None])
        for share in chunks.spans(len(leaf))
        for a, b in share
    ]
    return with_gradients(torch.cat(parts), leaf, network)


def test_a_chunk_made_again_has_its_own_dropout_masks(network: Gated, inputs: Tensor) -> None:
    network.train()
    found = []
    for keep in (1, 9):
        torch.manual_seed(5)
        found.append(taken(network, inputs, Chunks(3, keep=keep)))
        state = torch.get_rng_state()
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=0)
    torch.manual_seed(5)
    plain = taken(network, inputs, WHOLE)
    assert (plain[0] - found[0][0]).abs().max() > 1e-3, "dropout was on"
    torch.manual_seed(5)
    torch.randint(2**62, ())
    assert torch.equal(torch.get_rng_state(), state), "one number is drawn, however many chunks there are"


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
