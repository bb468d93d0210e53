"""The map by oneDNN is torch's own, and so are its gradients, up to rounding."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from opencse.kernels.linear import linear, onednn_has_bf16


@pytest.fixture(autouse=True, params=["torch", "onednn"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What computes float32 products, on whatever processor."""
    if request.param == "onednn" and not torch._C._has_mkldnn:
        pytest.skip("torch without oneDNN")
    monkeypatch.setattr("opencse.kernels.linear.float32_kernel", lambda: request.param)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("width", "out"), [(64, 256), (256, 64), (64, 1024), (1024, 64)])
def test_map_and_gradients(dtype: torch.dtype, width: int, out: int) -> None:
    torch.manual_seed(0)
    x, weight, bias, above = torch.randn(50, width), torch.randn(out, width), torch.randn(out), torch.randn(50, out)
    x, above = x.to(dtype).float(), above.to(dtype).float()
    exact = [x.clone().requires_grad_(), weight.clone().requires_grad_(), bias.clone().requires_grad_()]
    torch.autograd.backward((functional.linear(*exact) * above).sum())
    ours = [x.to(dtype).requires_grad_(), weight.clone().requires_grad_(), bias.clone().requires_grad_()]
    made = linear(ours[0], [ours[1]], [ours[2]])
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_gradient_is_made_that_nobody_needs(dtype: torch.dtype) -> None:
    if dtype == torch.bfloat16 and not onednn_has_bf16():
        pytest.skip("oneDNN computes no bf16 here")
    x, weight = torch.randn(5, 8, dtype=dtype), torch.randn(4, 8, requires_grad=True)
    torch.autograd.backward(linear(x, [weight], [torch.zeros(4)]).sum())
    assert x.grad is None
    assert weight.grad is not None


def test_the_kernel_that_is_chosen_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the tests above: by oneDNN the product is one operation of its own."""
    if not torch._C._has_mkldnn:
        pytest.skip("torch without oneDNN")
    given = torch.randn(5, 8), [torch.randn(4, 8, requires_grad=True)], [torch.zeros(4)]
    for chosen, operation in (("onednn", "_LinearBackward"), ("torch", "AddmmBackward0")):
        monkeypatch.setattr("opencse.kernels.linear.float32_kernel", lambda chosen=chosen: chosen)
        assert type(linear(*given).grad_fn).__name__ == operation


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_several_maps_are_each_by_itself(dtype: torch.dtype) -> None:
    """Side by side in one product they give what each gives alone, and each weight has its own gradient."""
    torch.manual_seed(0)
    x = torch.randn(50, 64).to(dtype)
    weights = [torch.randn(out, 64, requires_grad=True) for out in (32, 8, 16)]
    biases = [torch.randn(out, requires_grad=True) for out in (32, 8, 16)]
    above = torch.randn(50, 56).to(dtype)
    together = linear(x, weights, biases)
    torch.autograd.backward((together * above).sum())
    found = [leaf.grad for leaf in (*weights, *biases)]
    for leaf in (*weights, *biases):
        leaf.grad = None
    alone = torch.cat([linear(x, [w], [b]) for w, b in zip(weights, biases, strict=True)], dim=1)
    torch.autograd.backward((alone * above).sum())
    rough = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(together, alone, rtol=rough, atol=rough)
    for leaf, one in zip((*weights, *biases), found, strict=True):
        torch.testing.assert_close(one, leaf.grad, rtol=rough, atol=50 * rough)
