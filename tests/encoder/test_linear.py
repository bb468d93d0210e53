"""The bf16 map is torch's own, and so are its gradients, up to the rounding of bf16."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from opencse.encoder.linear import linear, onednn_has_bf16


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("width", "out"), [(64, 256), (256, 64)])
def test_map_and_gradients(dtype: torch.dtype, width: int, out: int) -> None:
    torch.manual_seed(0)
    x, weight, bias, above = torch.randn(50, width), torch.randn(out, width), torch.randn(out), torch.randn(50, out)
    x, above = x.to(dtype).float(), above.to(dtype).float()
    exact = [x.clone().requires_grad_(), weight.clone().requires_grad_(), bias.clone().requires_grad_()]
    torch.autograd.backward((functional.linear(*exact) * above).sum())
    ours = [x.to(dtype).requires_grad_(), weight.clone().requires_grad_(), bias.clone().requires_grad_()]
    made = linear(*ours)
    assert made.dtype == dtype
    torch.autograd.backward((made * above.to(dtype)).sum())
    rough = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(made.detach().float(), functional.linear(x, weight, bias), rtol=rough, atol=50 * rough)
    for one, other in zip(ours, exact, strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert one.grad.dtype == one.dtype
        error = (one.grad.float() - other.grad).norm() / other.grad.norm()
        assert float(error) < rough


def test_no_gradient_is_made_that_nobody_needs() -> None:
    if not onednn_has_bf16():
        pytest.skip("oneDNN computes no bf16 here")
    x, weight = torch.randn(5, 8, dtype=torch.bfloat16), torch.randn(4, 8, requires_grad=True)
    torch.autograd.backward(linear(x, weight, torch.zeros(4)).sum())
    assert x.grad is None
    assert weight.grad is not None
