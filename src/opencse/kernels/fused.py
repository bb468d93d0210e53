"""A layer for training on a GPU in few kernels: Triton's between the products, and weights that are cast once.

The same function of the same weights as `opencse.kernels.padded.layer_states`, up to rounding and dropout's draws.
Forward a layer is eight kernels and backward sixteen, where torch's own operations are some hundred: half a step would
be casts, copies, sums and the time between kernels. The backward passes are written out below, as autograd would add up
and cast what the products can add and write themselves. Importing this module imports Triton.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from opencse.kernels.packed import Block
from opencse.kernels.triton_attention import attention, attention_gradients
from opencse.kernels.triton_dropout import SeededDropout
from opencse.kernels.triton_rows import added_norm, added_norm_gradients, gelu, gelu_gradients

SLOTS = 3
"""Places of a layer that draw dropout: attention weights, attention output, feed-forward output."""


class Copies(NamedTuple):
    """The weights of one layer as they are now: matrices in the type of the arithmetic, biases in float32.

    Attributes:
        biases: (3 hidden,) of query, key and value.
        joined: (3 hidden, hidden), of the same.
        attention: (hidden, hidden), of the attention output.
        inner: (wide, hidden).
        outer: (hidden, wide).
    """

    biases: Tensor
    joined: Tensor
    attention: Tensor
    inner: Tensor
    outer: Tensor


class Setting(NamedTuple):
    """What the layers of one forward share.

    Attributes:
        mask: (rows, length), not 0 at tokens.
        heads: of the attention.
        hidden_rate: dropout of the maps' outputs.
        attention_rate: dropout of the attention weights.
        eps: of the LayerNorms.
        seeds: (layers * SLOTS,) int64, of dropout; None without.
    """

    mask: Tensor
    heads: int
    hidden_rate: float
    attention_rate: float
    eps: float
    seeds: Tensor | None

    def draws(self, number: int, slot: int) -> SeededDropout:
        """The dropout at place ``slot`` (from 0, in the order of the layer) of layer ``number``."""
        rate = self.hidden_rate if slot else self.attention_rate
        return SeededDropout(rate, self.seeds, number * SLOTS + slot)


def copied(blocks: Sequence[Block], dtype: torch.dtype) -> list[Copies]:
    """The current matrices of all layers in ``dtype``, and their joined biases, written by few kernels."""
    matrices = _pieces([[one.weight for one in block.linears] for block in blocks], dtype)
    biases = _pieces([[block.query.bias, block.key.bias, block.value.bias] for block in blocks], torch.float32)
    copies = []
    for block, matrix, bias in zip(blocks, matrices, biases, strict=True):
        shapes = [part.weight.shape for part in block.linears]
        split = [3 * shapes[0].numel(), *(shape.numel() for shape in shapes[3:])]
        joined, *others = torch.split(matrix, split)
        views = (part.view(shape) for part, shape in zip(others, shapes[3:], strict=True))
        copies.append(Copies(bias, joined.view(-1, shapes[0][1]), *views))
    return copies


def _pieces(sources: Sequence[Sequence[Tensor]], dtype: torch.dtype) -> Sequence[Tensor]:
    """Copies of the tensors of each group, in ``dtype``, one after the other in one flat tensor for each group."""
    flat = [one for group in sources for one in group]
    memory = torch.empty(sum(one.numel() for one in flat), dtype=dtype, device=flat[0].device)
    parts = torch.split(memory, [one.numel() for one in flat])
    with torch.no_grad():
        torch._foreach_copy_([part.view_as(one) for part, one in zip(parts, flat, strict=True)], flat)
    return torch.split(memory, [sum(one.numel() for one in group) for group in sources])


def fused_layer(x: Tensor, block: Block, copies: Copies, setting: Setting, number: int, first: bool) -> Tensor:
    """One layer.

    Args:
        x: (rows, length, hidden).
        block: the weights.
        copies: of them.
        setting: of the forward.
        number: of the layer, from 0.
        first: compute the first token alone.

    Returns:
        (rows, length, hidden), or (rows, 1, hidden).
    """
    with torch.cuda.device_of(x):  # type: ignore[no-untyped-call]  # where Triton launches
        weights = _weights(block.query, block.key, block.value, block.attention, norm=block.attention_norm)
        x = _Attended.apply(x, copies, setting, number, first, *weights)  # type: ignore[no-untyped-call]
        weights = _weights(block.inner, block.outer, norm=block.outer_norm)
        states: Tensor = _FedForward.apply(x, copies, setting, number, *weights)  # type: ignore[no-untyped-call]
    return states


def _weights(*maps: nn.Linear, norm: nn.LayerNorm) -> tuple[Tensor, ...]:
    """The matrices of ``maps``, then their biases, then what ``norm`` has."""
    return *(one.weight for one in maps), *(one.bias for one in maps), norm.weight, norm.bias


class _Attended(torch.autograd.Function):
    """The first half of a layer: attention, its output's map, and the LayerNorm of the sum."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        x: Tensor,
        copies: Copies,
        setting: Setting,
        number: int,
        first: bool,
        *weights: Tensor,
    ) -> Tensor:
        *_, change_bias, norm_weight, norm_bias = weights
        rows, length, hidden = x.shape
        queries = 1 if first else length
        x = x.contiguous()
        joined = functional.linear(x, copies.joined)
        draws = setting.draws(number, 0), setting.draws(number, 1)
        mixed = attention(joined, copies.biases, setting.mask, setting.heads, draws[0], queries)
        change = functional.linear(mixed, copies.attention)
        residual = x[:, :queries].reshape(-1, hidden).contiguous()
        flat = change.view(-1, hidden)
        y, statistics = added_norm(residual, flat, change_bias, norm_weight, norm_bias, setting.eps, draws[1])
        ctx.save_for_backward(x, joined, mixed, change, statistics, change_bias, norm_weight)
        ctx.copies, ctx.setting, ctx.draws, ctx.dtypes = copies, setting, draws, [one.dtype for one in weights]
        return y.view(rows, queries, hidden)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        x, joined, mixed, change, statistics, change_bias, norm_weight = ctx.saved_tensors
        copies, setting, draws, trained = ctx.copies, ctx.setting, ctx.draws, ctx.needs_input_grad[5:]
        hidden, queries = x.shape[2], mixed.shape[1]
        of_x, of_change, of_norm = added_norm_gradients(
            gradient.contiguous().view(-1, hidden),
            x[:, :queries].reshape(-1, hidden).contiguous(),
            change.view(-1, hidden),
            change_bias,
            norm_weight,
            statistics,
            draws[1],
        )
        of_output = _of_weight(of_change, mixed, ctx.dtypes[3]) if trained[3] else None
        of_mixed = (of_change @ copies.attention).view_as(mixed)
        of_joined, of_biases = attention_gradients(
            of_mixed, joined, copies.biases, setting.mask, setting.heads, draws[0]
        )
        of_matrices: Sequence[Tensor | None] = (None, None, None)
        if any(trained[:3]):
            of_matrices = _of_weight(of_joined, x, ctx.dtypes[0]).chunk(3)
        of_input = None
        if ctx.needs_input_grad[0]:
            of_input = _added_product(of_x, of_joined, copies.joined, x.shape)
        of_weights = [*of_matrices, of_output, *of_biases.chunk(3), of_norm[2], of_norm[0], of_norm[1]]
        return of_input, None, None, None, None, *_asked(of_weights, trained, ctx.dtypes)


class _FedForward(torch.autograd.Function):
    """The second half of a layer: two maps with GELU between them, and the LayerNorm of the sum."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        x: Tensor,
        copies: Copies,
        setting: Setting,
        number: int,
        *weights: Tensor,
    ) -> Tensor:
        _, _, inner_bias, change_bias, norm_weight, norm_bias = weights
        flat = x.view(-1, x.shape[2])
        product = functional.linear(flat, copies.inner)
        inner = gelu(product, inner_bias)
        change = functional.linear(inner, copies.outer)
        draws = setting.draws(number, 2)
        y, statistics = added_norm(flat, change, change_bias, norm_weight, norm_bias, setting.eps, draws)
        ctx.save_for_backward(x, product, inner, change, statistics, inner_bias, change_bias, norm_weight)
        ctx.copies, ctx.draws, ctx.dtypes = copies, draws, [one.dtype for one in weights]
        return y.view(x.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        x, product, inner, change, statistics, inner_bias, change_bias, norm_weight = ctx.saved_tensors
        copies, trained = ctx.copies, ctx.needs_input_grad[4:]
        flat = x.view(-1, x.shape[2])
        gradient = gradient.contiguous().view_as(flat)
        of_x, of_change, of_norm = added_norm_gradients(
            gradient, flat, change, change_bias, norm_weight, statistics, ctx.draws
        )
        of_outer = _of_weight(of_change, inner, ctx.dtypes[1]) if trained[1] else None
        of_product, of_inner_bias = gelu_gradients(of_change @ copies.outer, product, inner_bias)
        of_inner = _of_weight(of_product, flat, ctx.dtypes[0]) if trained[0] else None
        of_input = None
        if ctx.needs_input_grad[0]:
            of_input = _added_product(of_x, of_product, copies.inner, x.shape)
        of_weights = [of_inner, of_outer, of_inner_bias, of_norm[2], of_norm[0], of_norm[1]]
        return of_input, None, None, None, *_asked(of_weights, trained, ctx.dtypes)


def _of_weight(of_product: Tensor, x: Tensor, dtype: torch.dtype) -> Tensor:
    """The gradient of a matrix, in its own type: on a GPU the product itself writes that."""
    a, b = of_product.flatten(0, -2).t(), x.flatten(0, -2)
    if a.is_cuda and dtype == torch.float32 != a.dtype:
        return torch.mm(a, b, out_dtype=dtype)
    return (a @ b).to(dtype)


def _added_product(of_x: Tensor, of_product: Tensor, weight: Tensor, shape: torch.Size) -> Tensor:
    """``of_product weight``, of ``shape``, plus ``of_x``, of all tokens or the first ones; it may be overwritten."""
    of_product = of_product.flatten(0, -2)
    if len(of_x) == len(of_product):
        return of_x.addmm_(of_product, weight).view(shape)
    added = (of_product @ weight).view(shape)
    of_first = of_x.view(shape[0], -1, shape[2])
    added[:, : of_first.shape[1]] += of_first
    return added


def _asked(
    gradients: Sequence[Tensor | None], trained: Sequence[bool], dtypes: Sequence[torch.dtype]
) -> list[Tensor | None]:
    """The gradients of what is trained, each in the type of its weight."""
    return [
        None if one is None or not is_trained else one.to(dtype)
        for one, is_trained, dtype in zip(gradients, trained, dtypes, strict=True)
    ]
