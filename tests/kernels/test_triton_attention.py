"""Attention by Triton against a double-precision one that goes through texts and heads one by one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from devices import DEVICE, use_triton

use_triton()

from opencse.kernels.triton_attention import attention, attention_gradients  # noqa: E402
from opencse.kernels.triton_dropout import SeededDropout  # noqa: E402

ROWS, HEADS = 3, 2
SEEDS = torch.tensor([7, 2**50 + 9], device=DEVICE)


def inputs(length: int, size: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """The joined queries, keys and values, their biases, and a mask with texts of all, half and one of the ids."""
    torch.manual_seed(length)
    joined = torch.randn(ROWS, length, 3 * HEADS * size, device=DEVICE).to(dtype)
    lengths = torch.tensor([length, max(1, length // 2), 1], device=DEVICE)
    return joined, torch.randn(3 * HEADS * size, device=DEVICE), torch.arange(length, device=DEVICE) < lengths[:, None]


def expected(joined: Tensor, biases: Tensor, mask: Tensor, queries: int, kept: Tensor | None, rate: float) -> Tensor:
    size = joined.shape[2] // 3 // HEADS
    parts = (joined + biases).chunk(3, dim=2)
    rows = []
    for row in range(ROWS):
        heads = []
        for head in range(HEADS):
            q, k, v = (part[row, :, head * size : (head + 1) * size] for part in parts)
            scores = (q[:queries] @ k.T) / size**0.5
            weights = scores.masked_fill(~mask[row], -torch.inf).softmax(dim=1)
            if kept is not None:
                weights = weights * kept[row, head, :queries] / (1 - rate)
            heads.append(weights @ v)
        rows.append(torch.cat(heads, dim=1))
    return torch.stack(rows)


def kept_weights(length: int, size: int, rate: float) -> Tensor:
    """(ROWS, HEADS, length, length), 1 where dropout keeps a weight: weights are equal, and value j is 1 at j alone."""
    joined = torch.zeros(ROWS, length, 3, HEADS, size, device=DEVICE)
    joined[:, :, 2] = torch.eye(length, size, device=DEVICE)[:, None]
    flat = joined.view(ROWS, length, -1)
    draws = SeededDropout(rate, SEEDS, 1)
    mask = torch.ones(ROWS, length, device=DEVICE)
    mixed = attention(flat, torch.zeros(flat.shape[2], device=DEVICE), mask, HEADS, draws, length)
    return (mixed.view(ROWS, length, HEADS, size)[..., :length] > 0).transpose(1, 2).double()


@pytest.mark.parametrize(
    ("length", "size", "rate", "first"),
    [
        (1, 16, 0.0, False),
        (8, 32, 0.0, False),
        (13, 16, 0.3, False),
        (13, 24, 0.3, True),
        (32, 64, 0.1, False),
        (32, 64, 0.0, True),
        (40, 8, 0.0, False),
    ],
)
def test_values_and_gradients(length: int, size: int, rate: float, first: bool) -> None:
    joined, biases, mask = inputs(length, size)
    queries = 1 if first else length
    kept = kept_weights(length, size, rate) if rate else None
    if kept is not None:
        assert abs(float(kept.mean()) - (1 - rate)) < 4 * (rate * (1 - rate) / kept.numel()) ** 0.5
        assert not torch.equal(kept[0, 0], kept[0, 1])
        assert not torch.equal(kept[0], kept[1])
    exact = [one.double().requires_grad_() for one in (joined, biases)]
    wanted = expected(exact[0], exact[1], mask, queries, kept, rate)
    gradient = torch.randn_like(wanted)
    of_joined, of_biases = torch.autograd.grad(wanted, exact, gradient)
    draws = SeededDropout(rate, SEEDS if rate else None, 1)
    found = attention(joined, biases, mask, HEADS, draws, queries)
    torch.testing.assert_close(found.double(), wanted, atol=3e-6, rtol=1e-5)
    ours, sums = attention_gradients(gradient.float(), joined, biases, mask, HEADS, draws)
    torch.testing.assert_close(ours.double(), of_joined, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(sums.double(), of_biases, atol=5e-5, rtol=1e-5)
    assert float(of_joined.abs().max()) > 0.1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_rounded_and_no_more(dtype: torch.dtype) -> None:
    joined, biases, mask = inputs(32, 64, dtype)
    exact = [one.double().requires_grad_() for one in (joined, biases)]
    wanted = expected(exact[0], exact[1], mask, 32, None, 0.0)
    gradient = torch.randn_like(wanted).to(dtype)
    of_joined, of_biases = torch.autograd.grad(wanted, exact, gradient.double())
    draws = SeededDropout(0.0, None, 0)
    found = attention(joined, biases, mask.long(), HEADS, draws, 32)
    ours, sums = attention_gradients(gradient, joined, biases, mask.long(), HEADS, draws)
    assert found.dtype == ours.dtype == dtype
    for one, exactly in ((found, wanted), (ours, of_joined), (sums, of_biases)):
        assert float((one.double() - exactly.detach()).norm() / exactly.detach().norm()) < 1.5 * torch.finfo(dtype).eps
