"""What layers are computed with on a CPU: linear maps, attention of packed rows, groups of texts by length.

A linear map goes to the library that computes its products fastest. bf16 goes through oneDNN everywhere. For float32
torch takes Intel's library (MKL), which leaves AVX-512 aside on processors of other makers, where oneDNN is twice as
fast; on Intel's, and where there is no AVX-512, MKL is faster by a tenth to a third.

In training one gather arranges queries, keys and values by heads and one puts the result back: torch's own operations
copy each part twice, and again for the gradients, which makes a whole step take 1.11 to 1.17 times as long. Without
gradients the difference is too small to measure, so there the padded batch is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from opencse.kernels.precision import INTEL, maker

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
            # The maps were joined in the forward pass, so one product has the gradients of all.
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


_SCORES = 2**25
"""Most scores of a batch that inference holds at once (192 MiB); `encode`'s own batches have half of that."""


@dataclass(frozen=True)
class HeadPositions:
    """Positions of the parts of packed rows; a part is one head's share of one token's query, key or value.

    Attributes:
        shape: (rows, heads, length) of the padded batch.
        part_of_position: (parts * rows * heads * length,) the packed part at each position, query by query; at padding
            any of them.
        position_of_part: (tokens * parts * heads,) the position of each packed part.
        value_of_position: (rows * heads * length,) the packed attention output at each position; at padding any.
        position_of_value: (tokens * heads,) the position of each attention output.
        tokens: (rows, 1, length, 1) 0 at padding, else 1; None where nothing is padded.
    """

    shape: tuple[int, int, int]
    part_of_position: Tensor
    position_of_part: Tensor
    value_of_position: Tensor
    position_of_value: Tensor
    tokens: Tensor | None

    @classmethod
    def of(cls, shape: tuple[int, int], positions: Tensor, heads: int, parts: int) -> HeadPositions:
        """Makes the positions of tokens at ``positions`` (T,) of a flattened batch; ``parts``: 3, or 2 (key, value)."""
        rows, length = shape
        count, device = len(positions), positions.device
        part, head = torch.arange(parts, device=device), torch.arange(heads, device=device)
        # (parts, rows, heads, length)
        token = _token_at(shape, positions).view(1, rows, 1, length)
        part_of_position = (token * parts + part.view(-1, 1, 1, 1)) * heads + head.view(1, 1, -1, 1)
        value_of_position = token * heads + head.view(1, 1, -1, 1)
        row, position = positions // length, positions % length
        # (T, parts, heads)
        position_of_part = part.view(1, -1, 1) * rows + row.view(-1, 1, 1)
        position_of_part = (position_of_part * heads + head) * length + position.view(-1, 1, 1)
        tokens = None
        if count < rows * length:
            tokens = torch.zeros(rows * length, device=device)
            tokens[positions] = 1.0
            tokens = tokens.view(rows, 1, length, 1)
        return cls(
            (rows, heads, length),
            part_of_position.flatten(),
            position_of_part.flatten(),
            value_of_position.flatten(),
            position_of_part[:, 0].flatten(),
            tokens,
        )

    def ordered(self, packed: Tensor) -> Tensor:
        """(T, parts * hidden) -> (parts, rows * heads, length, hidden / heads); at padding some token's."""
        rows, heads, length = self.shape
        parts_by_head = packed.reshape(len(self.position_of_part), -1).index_select(0, self.part_of_position)
        return parts_by_head.view(-1, rows * heads, length, parts_by_head.shape[1])

    def packed(self, ordered: Tensor, parts: int) -> Tensor:
        """The inverse, of ``parts`` parts: (T, parts * hidden)."""
        index = self.position_of_value if parts == 1 else self.position_of_part
        parts_by_head = ordered.reshape(-1, ordered.shape[-1]).index_select(0, index)
        return parts_by_head.view(-1, parts * self.shape[1] * parts_by_head.shape[1])

    def spread(self, mixed: Tensor) -> Tensor:
        """Mixed values (T, hidden) -> (rows * heads, length, hidden / heads), 0 at padding."""
        rows, heads, length = self.shape
        parts_by_head = (
            mixed.reshape(len(self.position_of_value), -1)
            .index_select(0, self.value_of_position)
            .view(rows, heads, length, -1)
        )
        if self.tokens is not None:
            parts_by_head.mul_(self.tokens.to(parts_by_head.dtype))  # four times as fast as to fill in zeros
        return parts_by_head.view(rows * heads, length, -1)


def _token_at(shape: tuple[int, int], positions: Tensor) -> Tensor:
    """(rows, length) which token is at each position of the batch; at padding the first."""
    token = torch.zeros(shape, dtype=torch.int64, device=positions.device)
    token.view(-1)[positions] = torch.arange(len(positions), device=positions.device)
    return token


def inferred_attention(
    joined: Tensor, query: Tensor | None, shape: tuple[int, int], positions: Tensor, heads: int, bias: Tensor | None
) -> Tensor:
    """`attention` without dropout and without gradient.

    Args:
        joined: (T, 3 * hidden) query, key and value of each token, or (T, 2 * hidden) key and value.
        query: (rows, hidden) of the first tokens, where only they have one; else None.
        shape: (rows, length) of the padded batch.
        positions: (T,) of each token in the flattened batch.
        heads: of the attention.
        bias: what is added to the scores, of a shape that broadcasts to (rows, heads, queries, length); minus infinity
            at padding.

    Returns:
        (T, hidden), or (rows, hidden) where only first tokens have a query.
    """
    rows, length = shape
    padded = joined.new_zeros(rows * length, joined.shape[1]).index_copy_(0, positions, joined)
    # (parts, rows, heads, length, size)
    *queries, k, v = padded.view(rows, length, 3 if query is None else 2, heads, -1).permute(2, 0, 3, 1, 4)
    q = queries[0] if query is None else query.view(rows, heads, 1, -1)
    few = rows * heads * q.shape[2] * length <= _SCORES
    if few and joined.dtype == torch.bfloat16 and kernel_of(joined) == "onednn":
        mixed = _by_products(q, k, v, bias)
    else:
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    by_token = mixed.transpose(1, 2)
    if query is not None:
        return by_token.reshape(query.shape)
    return by_token.reshape(rows * length, -1).index_select(0, positions)


def _by_products(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    """Two products in bf16 and a softmax in float32 between them, (rows, heads, queries, size) as ``q``.

    Texts are short: up to 512 ids torch's own kernel, which goes over the keys in parts, takes 1.3 to 4 times as long.
    """
    rows, heads, queries, size = q.shape
    scores = torch.bmm(q.reshape(-1, queries, size), k.flatten(0, 1).transpose(1, 2)).view(rows, heads, queries, -1)
    weights = scores.float().mul_(size**-0.5)
    if bias is not None:
        weights.add_(bias)
    scores.copy_(torch.softmax(weights, dim=3, out=weights))
    return torch.bmm(scores.flatten(0, 1), v.flatten(0, 1)).view(rows, heads, queries, size)


def attention(
    joined: Tensor,
    query: Tensor | None,
    head_positions: HeadPositions,
    bias: Tensor | None,
    mask: Tensor | None,
    rate: float,
) -> Tensor:
    """``dropout(softmax(q k^T / sqrt(d) + bias)) v`` of each head.

    Args:
        joined: (T, 3 * hidden) query, key and value of each token, or (T, 2 * hidden) key and value.
        query: (rows, hidden) of the first tokens, where only they have one; else None.
        head_positions: of the parts of ``joined``.
        bias: what is added to the scores, of a shape that broadcasts to theirs; minus infinity at padding.
        mask: (rows, heads, queries, length) dropout mask of 0 and 1; None without dropout.
        rate: of the dropout.

    Returns:
        (T, hidden), or (rows, hidden) where only first tokens have a query.
    """
    mixed: Tensor = _Attention.apply(joined, query, bias, mask, head_positions, rate)  # type: ignore[no-untyped-call]
    return mixed


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - as torch has it
        joined: Tensor,
        query: Tensor | None,
        bias: Tensor | None,
        mask: Tensor | None,
        head_positions: HeadPositions,
        rate: float,
    ) -> Tensor:
        rows, heads, length = head_positions.shape
        parts = head_positions.ordered(joined)
        size = parts.shape[-1]
        if query is None:
            q, k, v = parts
            q.mul_(size**-0.5)  # here rather than on the scores, of which there are more
        else:
            q, (k, v) = query.reshape(rows * heads, 1, size) * size**-0.5, parts
        scores = torch.bmm(q, k.transpose(1, 2)).view(rows, heads, -1, length)
        weights = (scores if bias is None else scores.add_(bias)).softmax(dim=3)
        dropped = weights if mask is None else weights * mask
        mixed = torch.bmm(dropped.view(rows * heads, -1, length), v)
        ctx.save_for_backward(parts, q, weights, dropped, mask)
        ctx.head_positions, ctx.rate, ctx.bias = head_positions, rate, None if bias is None else bias.shape
        packed = mixed.view(rows, heads * size) if query is not None else head_positions.packed(mixed, 1)
        return packed if rate == 0 else packed.mul_(1 / (1 - rate))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        parts, q, weights, dropped, mask = ctx.saved_tensors
        head_positions: HeadPositions = ctx.head_positions
        rows, heads, length = head_positions.shape
        first, size = len(parts) == 2, parts.shape[-1]
        k, v = parts[-2:]
        scale = 1 / (1 - ctx.rate)
        if first:
            of_mixed = gradient.reshape(rows * heads, 1, size) * scale
        else:
            of_mixed = head_positions.spread(gradient).mul_(scale)
        gradients = torch.empty_like(parts)
        torch.bmm(dropped.view(rows * heads, -1, length).transpose(1, 2), of_mixed, out=gradients[-1])
        of_weights = torch.bmm(of_mixed, v.transpose(1, 2)).view_as(weights)
        if mask is not None:
            of_weights.mul_(mask)
        # torch's own kernel: weights * (of_weights - sum(weights * of_weights)) in one pass.
        backward: Any = torch.ops.aten._softmax_backward_data
        of_scores: Tensor = backward(of_weights, weights, 3, weights.dtype)
        flat = of_scores.view(rows * heads, -1, length)
        torch.bmm(flat.transpose(1, 2), q, out=gradients[-2])
        of_query = None
        if first:
            of_query = torch.bmm(flat, k).mul_(size**-0.5).view(rows, heads * size)
        else:
            torch.bmm(flat, k, out=gradients[0])
            gradients[0].mul_(size**-0.5)
        of_bias = of_scores.sum_to_size(ctx.bias) if ctx.needs_input_grad[2] else None
        return head_positions.packed(gradients, len(parts)), of_query, of_bias, None, None, None


_SHORT = 64
"""Batches of texts up to this many ids are not split: attention is a small part of such a step."""
_WORTH = 0.5
"""Largest share of the batch's scores that its groups may have; otherwise the batch is not split."""


@dataclass(frozen=True)
class Group:
    """Some texts of a packed batch, as a padded batch of their own.

    Attributes:
        shape: (rows, length) of the group.
        rows: (rows,) which texts of the batch.
        packed_rows: (t,) the packed rows of their tokens.
        positions: (t,) of each token in the flattened (rows, length) batch of the group.
    """

    shape: tuple[int, int]
    rows: Tensor
    packed_rows: Tensor
    positions: Tensor

    def bias(self, bias: Tensor | None) -> Tensor | None:
        """The group's part of the batch's bias of attention scores, (1 or rows, ..., 1 or length, length)."""
        if bias is None:
            return None
        length = self.shape[1]
        part = bias if bias.shape[0] == 1 else bias.index_select(0, self.rows)
        return part[..., :length, :length] if part.shape[-2] > 1 else part[..., :length]


def grouped(lengths: Sequence[int], length: int, first: Tensor) -> list[Group] | None:
    """The texts of a batch by length, from ``_SHORT`` on by powers of two; None where splitting it would not pay.

    Args:
        lengths: ids of each text.
        length: that the batch is padded to.
        first: (rows,) packed row of each text's first token; the others follow it.
    """
    if length <= _SHORT:
        return None
    rows_of: dict[int, list[int]] = {}
    for row, tokens in enumerate(lengths):
        # Powers of two: groups stay few, and at most half of a group's length is padding.
        rows_of.setdefault(max(_SHORT, 1 << max(0, tokens - 1).bit_length()), []).append(row)
    longest = [max(lengths[row] for row in rows) for rows in rows_of.values()]
    scores = sum(len(rows) * most**2 for rows, most in zip(rows_of.values(), longest, strict=True))
    if scores > _WORTH * len(lengths) * length**2:
        return None
    device = first.device
    groups = []
    for rows, most in zip(rows_of.values(), longest, strict=True):
        counts = torch.tensor([lengths[row] for row in rows], device=device)
        positions = (torch.arange(most, device=device) < counts[:, None]).flatten().nonzero().squeeze(1)
        which = torch.tensor(rows, device=device)
        packed = first.index_select(0, which).index_select(0, positions // most) + positions % most
        groups.append(Group((len(rows), most), which, packed, positions))
    return groups


def order_of_groups(groups: Sequence[Group], count: int, *, by_row: bool) -> Tensor:
    """(count,) the position of each row of the batch in the rows of all groups, one group after the other.

    The packed rows of padding, at the end of the ``count``, have the position of the first token.

    Args:
        groups: of the batch.
        count: of its packed rows, or of its texts.
        by_row: the groups have one row per text, not one per token.
    """
    rows = torch.cat([group.rows if by_row else group.packed_rows for group in groups])
    position_of_row = torch.zeros(count, dtype=torch.int64, device=rows.device)
    position_of_row[rows] = torch.arange(len(rows), device=rows.device)
    return position_of_row
