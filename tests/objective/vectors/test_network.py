"""A part's network over the rows of a step: in chunks it is what it is at once, for weights and inputs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from opencse.objective.vectors.chunks import WHOLE, Chunks
from opencse.objective.vectors.network import through


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
    made = torch.cat(parts)
    torch.autograd.backward([(made * torch.linspace(-1, 2, made.numel()).view_as(made)).sum()])
    assert leaf.grad is not None
    return [made.detach(), leaf.grad, *(p.grad.clone() for p in network.parameters() if p.grad is not None)]


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


def test_only_the_last_chunks_keep_their_graph(network: Gated, inputs: Tensor) -> None:
    taken(network, inputs, Chunks(3, keep=1))
    assert network.calls == [(3, False), (3, False), (1, True), (3, True), (3, True)]


def test_weights_get_a_gradient_where_the_inputs_need_none(network: Gated, inputs: Tensor) -> None:
    made = through(network, lambda start, stop, rows: network(rows), inputs, Chunks(3))
    torch.autograd.backward([made.sum()])
    assert all(p.grad is not None and p.grad.any() for p in network.parameters())
    assert inputs.grad is None


def test_without_gradient_whole_numbers_pass(network: Gated, inputs: Tensor) -> None:
    with torch.no_grad():
        made = through(network, lambda start, stop, rows: torch.arange(start, stop), inputs, Chunks(3))
    assert made.tolist() == list(range(7))
    assert not made.requires_grad
