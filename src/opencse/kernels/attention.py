"""Attention of packed rows: one gather puts queries, keys and values in order for it, one puts them back.

Torch's own operations write the padded batch, cut it in three and copy each part once more by heads, and all that again
for the gradients. `attention` has gradients and dropout; `inferred_attention` has neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from opencse.kernels.linear import kernel_of

_KEYS = 16
"""Keys are so many, or a multiple: torch's kernel on a CPU takes up to twice as long on other numbers of them."""

_SCORES = 2**25
"""Scores of a batch that inference writes down at once (192 MiB), at most; `encode`'s own batches have half of that."""


@dataclass(frozen=True)
class HeadPositions:
    """Where parts of packed rows lie, cut by heads; a part is a head's share of one token's query, key or value.

    Attributes:
        shape: (rows, heads, length) of the padded batch.
        there: (parts * rows * heads * length,) the packed part at each place, query by query; at padding any.
        back: (tokens * parts * heads,) the place of each packed part.
        asked: (rows * heads * length,) the packed mixed value of each place; at padding any.
        mixed: (tokens * heads,) the place of each mixed value.
        tokens: (rows, 1, length, 1) 0 at padding, else 1; None where nothing is padded.
    """

    shape: tuple[int, int, int]
    there: Tensor
    back: Tensor
    asked: Tensor
    mixed: Tensor
    tokens: Tensor | None

    @classmethod
    def of(cls, shape: tuple[int, int], places: Tensor, heads: int, parts: int) -> HeadPositions:
        """Of tokens at ``places`` (T,) of a flattened (rows, length) batch; ``parts``: 3, or 2 for key and value."""
        rows, length = shape
        count, device = len(places), places.device
        part, head = torch.arange(parts, device=device), torch.arange(heads, device=device)
        # (parts, rows, heads, length)
        token = _token_at(shape, places).view(1, rows, 1, length)
        there = (token * parts + part.view(-1, 1, 1, 1)) * heads + head.view(1, 1, -1, 1)
        asked = token * heads + head.view(1, 1, -1, 1)
        row, position = places // length, places % length
        # (T, parts, heads)
        back = part.view(1, -1, 1) * rows + row.view(-1, 1, 1)
        back = (back * heads + head) * length + position.view(-1, 1, 1)
        tokens = None
        if count < rows * length:
            tokens = torch.zeros(rows * length, device=device)
            tokens[places] = 1.0
            tokens = tokens.view(rows, 1, length, 1)
        return cls(
            (rows, heads, length), there.flatten(), back.flatten(), asked.flatten(), back[:, 0].flatten(), tokens
        )

    def ordered(self, packed: Tensor) -> Tensor:
        """(T, parts * hidden) -> (parts, rows * heads, length, hidden / heads); at padding some token's."""
        rows, heads, length = self.shape
        cut = packed.reshape(len(self.back), -1).index_select(0, self.there)
        return cut.view(-1, rows * heads, length, cut.shape[1])

    def packed(self, ordered: Tensor, parts: int) -> Tensor:
        """The inverse, of ``parts`` parts: (T, parts * hidden)."""
        places = self.mixed if parts == 1 else self.back
        cut = ordered.reshape(-1, ordered.shape[-1]).index_select(0, places)
        return cut.view(-1, parts * self.shape[1] * cut.shape[1])

    def spread(self, mixed: Tensor) -> Tensor:
        """Mixed values (T, hidden) -> (rows * heads, length, hidden / heads), 0 at padding."""
        rows, heads, length = self.shape
        cut = mixed.reshape(len(self.mixed), -1).index_select(0, self.asked).view(rows, heads, length, -1)
        if self.tokens is not None:
            cut.mul_(self.tokens.to(cut.dtype))  # four times as fast as to fill in zeros
        return cut.view(rows * heads, length, -1)


@dataclass(frozen=True)
class Gather:
    """Where the parts of packed rows lie that inference reads; queries and keys in numbers of their own.

    Attributes:
        shape: (rows, heads, queries of a row, keys of a row); keys are a multiple of 16.
        queries: (rows * heads * queries,) the packed part at each place; not read where the first tokens alone ask.
        others: (2 * rows * heads * keys,) the same of keys and values; at padding any.
        mixed: (tokens * heads,) the place of each mixed value.
        bias: added to the scores, of a shape that broadcasts to (rows, heads, queries, keys); None where it is 0.
    """

    shape: tuple[int, int, int, int]
    queries: Tensor
    others: Tensor
    mixed: Tensor
    bias: Tensor | None

    @classmethod
    def of(
        cls, shape: tuple[int, int], places: Tensor, heads: int, bias: Tensor | None, like: Tensor, *, first: bool
    ) -> Gather:
        """Of tokens at ``places`` (T,) of a flattened (rows, length) batch.

        Args:
            shape: (rows, length).
            places: of the tokens.
            heads: of the attention.
            bias: of a shape that broadcasts to (rows, heads, queries, length), minus infinity at padding.
            like: has the type of the scores.
            first: the first tokens alone ask.
        """
        rows, length = shape
        keys = -(-length // _KEYS) * _KEYS
        device, head = places.device, torch.arange(heads, device=places.device)
        token = _token_at(shape, places)
        of_keys = functional.pad(token, (0, keys - length)).view(1, rows, 1, keys)
        parts = 2 if first else 3
        part = torch.arange(parts - 2, parts, device=device).view(2, 1, 1, 1)
        others = (of_keys * parts + part) * heads + head.view(1, 1, heads, 1)
        queries = token.view(rows, 1, length) * parts * heads + head.view(1, heads, 1)
        mixed = ((places // length).view(-1, 1) * heads + head) * length + (places % length).view(-1, 1)
        if keys > length:
            bias = like.new_zeros(1, 1, 1, length) if bias is None else bias
            bias = functional.pad(bias, (0, keys - length), value=float("-inf"))
        return cls(
            (rows, heads, 1 if first else length, keys), queries.flatten(), others.flatten(), mixed.flatten(), bias
        )


def _token_at(shape: tuple[int, int], places: Tensor) -> Tensor:
    """(rows, length) which of the tokens at ``places`` is at each place; at padding the first."""
    token = torch.zeros(shape, dtype=torch.int64, device=places.device)
    token.view(-1)[places] = torch.arange(len(places), device=places.device)
    return token


def inferred_attention(joined: Tensor, query: Tensor | None, gather: Gather) -> Tensor:
    """`attention` without dropout and without gradient.

    Args:
        joined: (T, 3 * hidden) query, key and value of each token, or (T, 2 * hidden) key and value.
        query: (rows, hidden) of the first tokens, where they alone ask; else None.
        gather: of the parts of ``joined``, and the bias.

    Returns:
        (T, hidden), or (rows, hidden) where the first tokens alone ask.
    """
    rows, heads, asked, keys = gather.shape
    cut = joined.reshape(joined.shape[0] * heads * (3 if query is None else 2), -1)
    k, v = cut.index_select(0, gather.others).view(2, rows, heads, keys, -1)
    q = (cut.index_select(0, gather.queries) if query is None else query).view(rows, heads, asked, -1)
    few = rows * heads * asked * keys <= _SCORES
    if few and joined.dtype == torch.bfloat16 and kernel_of(joined) == "onednn":
        mixed = _by_products(q, k, v, gather.bias)
    else:
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=gather.bias)
    if query is not None:
        return mixed.view(query.shape)
    return mixed.view(-1, cut.shape[1]).index_select(0, gather.mixed).view(joined.shape[0], -1)


def _by_products(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
    """Two products in bf16 and a softmax in float32 between them, (rows, heads, queries, size) as ``q``.

    Texts are short: up to 512 ids torch's own kernel, which goes over the keys in parts, takes 1.3 to 4 times as long.
    """
    rows, heads, asked, size = q.shape
    scores = torch.bmm(q.reshape(-1, asked, size), k.flatten(0, 1).transpose(1, 2)).view(rows, heads, asked, -1)
    weights = scores.float().mul_(size**-0.5)
    if bias is not None:
        weights.add_(bias)
    scores.copy_(torch.softmax(weights, dim=3, out=weights))
    return torch.bmm(scores.flatten(0, 1), v.flatten(0, 1)).view(q.shape)


def attention(
    joined: Tensor, query: Tensor | None, places: HeadPositions, bias: Tensor | None, kept: Tensor | None, rate: float
) -> Tensor:
    """``dropout(softmax(q k^T / sqrt(d) + bias)) v`` of each head.

    Args:
        joined: (T, 3 * hidden) query, key and value of each token, or (T, 2 * hidden) key and value.
        query: (rows, hidden) of the first tokens, where they alone ask; else None.
        places: of the parts of ``joined``.
        bias: what is added to the scores, of a shape that broadcasts to theirs; minus infinity at padding.
        kept: (rows, heads, queries, length) dropout mask of 0 and 1; None without dropout.
        rate: of the dropout.

    Returns:
        (T, hidden), or (rows, hidden) where the first tokens alone ask.
    """
    mixed: Tensor = _Attention.apply(joined, query, bias, kept, places, rate)  # type: ignore[no-untyped-call]
    return mixed


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - as torch has it
        joined: Tensor,
        query: Tensor | None,
        bias: Tensor | None,
        kept: Tensor | None,
        places: HeadPositions,
        rate: float,
    ) -> Tensor:
        rows, heads, length = places.shape
        parts = places.ordered(joined)
        size = parts.shape[-1]
        if query is None:
            q, k, v = parts
            q.mul_(size**-0.5)
        else:
            q, (k, v) = query.reshape(rows * heads, 1, size) * size**-0.5, parts
        scores = torch.bmm(q, k.transpose(1, 2)).view(rows, heads, -1, length)
        weights = (scores if bias is None else scores.add_(bias)).softmax(dim=3)
        dropped = weights if kept is None else weights * kept
        mixed = torch.bmm(dropped.view(rows * heads, -1, length), v)
        ctx.save_for_backward(parts, q, weights, dropped, kept)
        ctx.places, ctx.rate, ctx.bias = places, rate, None if bias is None else bias.shape
        packed = mixed.view(rows, heads * size) if query is not None else places.packed(mixed, 1)
        return packed if rate == 0 else packed.mul_(1 / (1 - rate))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        parts, q, weights, dropped, kept = ctx.saved_tensors
        places: HeadPositions = ctx.places
        rows, heads, length = places.shape
        first, size = len(parts) == 2, parts.shape[-1]
        k, v = parts[-2:]
        scale = 1 / (1 - ctx.rate)
        of_mixed = gradient.reshape(rows * heads, 1, size) * scale if first else places.spread(gradient).mul_(scale)
        found = torch.empty_like(parts)
        torch.bmm(dropped.view(rows * heads, -1, length).transpose(1, 2), of_mixed, out=found[-1])
        of_weights = torch.bmm(of_mixed, v.transpose(1, 2)).view_as(weights)
        if kept is not None:
            of_weights.mul_(kept)
        backward: Any = torch.ops.aten._softmax_backward_data
        of_scores: Tensor = backward(of_weights, weights, 3, weights.dtype)
        flat = of_scores.view(rows * heads, -1, length)
        torch.bmm(flat.transpose(1, 2), q, out=found[-2])
        of_query = None
        if first:
            of_query = torch.bmm(flat, k).mul_(size**-0.5).view(rows, heads * size)
        else:
            torch.bmm(flat, k, out=found[0])
            found[0].mul_(size**-0.5)
        of_bias = of_scores.sum_to_size(ctx.bias) if ctx.needs_input_grad[2] else None
        return places.packed(found, len(parts)), of_query, of_bias, None, None, None
