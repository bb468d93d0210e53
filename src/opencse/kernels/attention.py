"""Attention of packed rows: with gradients and dropout (`attention`), and with neither (`inferred_attention`).

In training one gather arranges queries, keys and values by heads and one puts the result back: torch's own operations
copy each part twice, and again for the gradients, which makes a whole step take 1.11 to 1.17 times as long. Without
gradients the difference is too small to measure, so there the padded batch is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from opencse.kernels.linear import kernel_of

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
