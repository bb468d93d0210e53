"""A linear map in bf16 for training on a CPU."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional


@cache
def onednn_has_bf16() -> bool:
    """Whether oneDNN is there and computes bf16 on this processor."""
    if not torch._C._has_mkldnn:
        return False
    supported: Any = torch.ops.mkldnn._is_mkldnn_bf16_supported
    return bool(supported())


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``x W^T + b`` in the type of ``x``, (T, in) -> (T, out); the weights' gradients are of their own type.

    Args:
        x: (T, in).
        weight: (out, in), of any type.
        bias: (out,).
    """
    if x.dtype == torch.bfloat16 and x.device.type == "cpu" and onednn_has_bf16():
        made: Tensor = _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return made
    return functional.linear(x, weight.to(x.dtype), bias.to(x.dtype))


class _Linear(torch.autograd.Function):
    """The bias is added within the product; torch's own call writes it first and adds the product to it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:  # noqa: ANN401
        w = weight.to(x.dtype)
        ctx.save_for_backward(x, w)
        call: Any = torch.ops.mkldnn._linear_pointwise
        made: Tensor = call(x, w, bias.to(x.dtype), "none", [], "")
        return made

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:  # noqa: ANN401
        x, w = ctx.saved_tensors
        gradient = gradient.contiguous()
        of_x = gradient @ w if ctx.needs_input_grad[0] else None
        of_weight = (gradient.t() @ x).float() if ctx.needs_input_grad[1] else None
        of_bias = gradient.sum(dim=0, dtype=torch.float32) if ctx.needs_input_grad[2] else None
        return of_x, of_weight, of_bias
