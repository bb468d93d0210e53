"""The LayerNorm of a sum and GELU by Triton against torch in double precision: values, gradients, dropout."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from devices import DEVICE, use_triton

use_triton()

from opencse.kernels import triton_rows  # noqa: E402
from opencse.kernels.triton_dropout import SeededDropout  # noqa: E402
from opencse.kernels.triton_rows import added_norm, added_norm_gradients, gelu, gelu_gradients  # noqa: E402

SEEDS = torch.tensor([3, 2**40 + 1], device=DEVICE)
EPS = 1e-5


def close(found: Tensor, wanted: Tensor, atol: float = 1e-5) -> None:
    assert float(wanted.detach().abs().max()) > 0.1
    torch.testing.assert_close(found.double(), wanted, atol=atol, rtol=1e-5)


def few_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that compute several tiles each, the last of which is not full."""
    monkeypatch.setattr(triton_rows, "NORM_CELLS", 256)
    monkeypatch.setattr(triton_rows, "NORM_PROGRAMS", 3)
    monkeypatch.setattr(triton_rows, "GELU_ROWS", 4)
    monkeypatch.setattr(triton_rows, "GELU_PROGRAMS", 3)


@pytest.mark.parametrize(("rows", "width", "rate"), [(29, 48, 0.0), (29, 48, 0.25), (1, 64, 0.0), (7, 320, 0.25)])
def test_the_norm_of_a_sum(rows: int, width: int, rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    few_tiles(monkeypatch)
    torch.manual_seed(rows)
    x, change, gradient = (torch.randn(rows, width, device=DEVICE) + 0.5 for _ in range(3))
    change_bias, weight, bias = (torch.randn(width, device=DEVICE) for _ in range(3))
    draws = SeededDropout(rate, SEEDS if rate else None, 1)
    ones, zeros = torch.ones(width, device=DEVICE), torch.zeros(width, device=DEVICE)
    raised = added_norm(torch.zeros_like(x), torch.ones_like(x), zeros, ones, zeros, EPS, draws)[0] > 0
    kept = raised.double() / (1 - rate) if rate else torch.ones(rows, width, device=DEVICE, dtype=torch.double)
    assert not rate or abs(float(raised.double().mean()) - (1 - rate)) < 0.1
    exact = [one.double().requires_grad_() for one in (x, change, weight, bias, change_bias)]
    total = exact[0] + kept * (exact[1] + exact[4])
    wanted = functional.layer_norm(total, (width,), exact[2], exact[3], EPS)
    of_exact = torch.autograd.grad(wanted, exact, gradient.double())
    found, statistics = added_norm(x, change, change_bias, weight, bias, EPS, draws)
    close(found, wanted)
    of_x, of_change, sums = added_norm_gradients(gradient, x, change, change_bias, weight, statistics, draws)
    assert (of_x is of_change) is (rate == 0)
    for one, exactly in zip((of_x, of_change, *sums), of_exact, strict=True):
        close(one, exactly, atol=5e-5)
    again = added_norm_gradients(gradient, x, change, change_bias, weight, statistics, draws)
    assert torch.equal(again[2], sums)


@pytest.mark.parametrize(("rows", "width"), [(29, 48), (1, 200)])
def test_gelu(rows: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    few_tiles(monkeypatch)
    torch.manual_seed(rows)
    product, gradient = 2 * torch.randn(rows, width, device=DEVICE), torch.randn(rows, width, device=DEVICE)
    bias = torch.randn(width, device=DEVICE)
    exact = [one.double().requires_grad_() for one in (product, bias)]
    wanted = functional.gelu(exact[0] + exact[1])
    of_exact = torch.autograd.grad(wanted, exact, gradient.double())
    close(gelu(product, bias), wanted)
    for one, exactly in zip(gelu_gradients(gradient, product, bias), of_exact, strict=True):
        close(one, exactly, atol=5e-5)


def test_bf16_is_rounded_once() -> None:
    """Or cut off, as the interpreter does."""
    torch.manual_seed(0)
    x, change, gradient = (torch.randn(9, 64, device=DEVICE).bfloat16() for _ in range(3))
    change_bias, weight, bias = (torch.randn(64, device=DEVICE) for _ in range(3))
    draws = SeededDropout(0.0, None, 0)
    found, statistics = added_norm(x, change, change_bias, weight, bias, EPS, draws)
    of_x, _, sums = added_norm_gradients(gradient, x, change, change_bias, weight, statistics, draws)
    exact = [one.double().requires_grad_() for one in (x, weight, bias)]
    wanted = functional.layer_norm(exact[0] + change.double() + change_bias, (64,), exact[1], exact[2], EPS)
    of_exact = torch.autograd.grad(wanted, exact, gradient.double())
    rounded = gelu(x, bias), functional.gelu(x.double() + bias)
    for one, exactly in ((found, wanted), (of_x, of_exact[0]), rounded):
        assert one.dtype == torch.bfloat16
        torch.testing.assert_close(one.double(), exactly, atol=1e-5, rtol=2**-7)
    for one, exactly in zip(sums[:2], of_exact[1:], strict=True):
        close(one, exactly)
