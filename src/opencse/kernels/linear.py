"""A linear map for training on a CPU, by the library that computes its products fastest there.

bf16 goes through oneDNN everywhere. For float32 torch takes Intel's library (MKL), which leaves AVX-512 aside on
processors of other makers, where oneDNN is twice as fast; on Intel's, and where there is no AVX-512, MKL is faster by
a tenth to a third.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from opencse.kernels.processor import INTEL, maker

Kernel = Literal["torch", "onednn"]


@cache
def onednn_has_bf16() -> bool:
    """Whether oneDNN is there and computes bf16 on this processor."""
    if not torch._C._has_mkldnn:
        return False
    supported: Any = torch.ops.mkldnn._is_mkldnn_bf16_supported
    return bool(supported())


@cache
def float32_kernel() -> Kernel:
    """The fastest kernel for float32 products on this processor; it depends on nothing else, so all runs agree."""
    wide = torch.cpu.get_capabilities().get("avx512_f")
    if not (wide and torch._C._has_mkldnn and torch._C.has_mkl):
        return "torch"
    return "torch" if maker() == INTEL else "onednn"


@cache
def bf16_kernel() -> Kernel:
    """The kernel for bf16 products: oneDNN, where this processor supports it."""
    return "onednn" if onednn_has_bf16() else "torch"


def kernel_of(x: Tensor) -> Kernel:
    """The fastest kernel for products of ``x``."""
    if x.device.type != "cpu":
        return "torch"
    kernels = {torch.bfloat16: bf16_kernel, torch.float32: float32_kernel}
    return kernels[x.dtype]() if x.dtype in kernels else "torch"


def linear(x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> Tensor:
    """``x W^T + b`` in the type of ``x``, (T, in) -> (T, out); the weights' gradients are of their own type.

    Args:
        x: (T, in).
        weights: one or several (out_i, in) of the same type; their rows are joined, so out is the sum of out_i.
        biases: (out_i,) of each.
    """
    if kernel_of(x) == "onednn":
        product: Tensor = _Linear.apply(x, *weights, *biases)  # type: ignore[no-untyped-call]
        return product
    return functional.linear(x, _joined(weights).to(x.dtype), _joined(biases).to(x.dtype))


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def _cast(parts: Sequence[Tensor], like: Tensor) -> Tensor:
    """Joins the rows of ``parts`` in the type of ``like``; each is written once."""
    sizes = [len(part) for part in parts]
    joined = like.new_empty(sum(sizes), *parts[0].shape[1:])
    for target, part in zip(torch.split(joined, sizes), parts, strict=True):
        target.copy_(part)
    return joined


class _Linear(torch.autograd.Function):
    """A linear map that adds the bias within the product; torch's own call writes it first and adds the product."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *parameters: Tensor) -> Tensor:  # noqa: ANN401
        count = len(parameters) // 2
        weights, biases = parameters[:count], parameters[count:]
        w = _cast(weights, x)
        ctx.save_for_backward(x, w)
        ctx.sizes, ctx.dtype = [len(part) for part in weights], weights[0].dtype
        return _mapped(x, w, _cast(biases, x))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        x, w = ctx.saved_tensors
        count = len(ctx.sizes)
        gradient = gradient.contiguous()
        of_x = _product(gradient, w) if ctx.needs_input_grad[0] else None
        of_weights: Sequence[Tensor | None] = [None] * count
        of_biases: Sequence[Tensor | None] = [None] * count
        if any(ctx.needs_input_grad[1 : 1 + count]):
            of_weights = torch.split(_product(gradient.t(), x).to(ctx.dtype), ctx.sizes)
        if any(ctx.needs_input_grad[1 + count :]):
            of_biases = torch.split(gradient.sum(dim=0).to(ctx.dtype), ctx.sizes)
        return of_x, *of_weights, *of_biases


def _mapped(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``x W^T + b`` by oneDNN, (T, in) -> (T, out)."""
    call: Any = torch.ops.mkldnn._linear_pointwise
    product: Tensor = call(x, weight, bias, "none", [], "")
    return product


def _product(a: Tensor, b: Tensor) -> Tensor:
    """``a b`` by oneDNN, (m, k) and (k, n) -> (m, n): for bf16 torch's own call, which takes it by itself."""
    return a @ b if a.dtype == torch.bfloat16 else _mapped(a, b.t(), None)
