"""A forward of BERT-shaped encoders for training on a GPU: one product for query, key and value, and few kernels.

The same function of the same weights as transformers' own, up to rounding and dropout's draws. A GPU that trains a
small encoder waits for the processor that launches its kernels: transformers' forward and backward under autocast are
some 1,500 of them. Here weights are cast once per layer, the last layer computes the first token alone where only that
one is read, and a layer can be compiled, which fuses what is left between its products. Texts are padded to multiples
of 8 ids: tensor cores want that, and a compiled layer is made for few shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from opencse.kernels.packed import Block, pack, relative_bias, roberta_positions

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MULTIPLE = 8
"""What divides the length of a batch."""
_MATERIALISED = 128
"""Longest texts whose attention scores are written out; for longer ones torch's fused attention is faster."""


class LayerWeights(NamedTuple):
    """The weights of one layer, as a compiled function takes them: (weight, bias) of each map, then of each norm."""

    query: tuple[Tensor, Tensor]
    key: tuple[Tensor, Tensor]
    value: tuple[Tensor, Tensor]
    attention: tuple[Tensor, Tensor]
    inner: tuple[Tensor, Tensor]
    outer: tuple[Tensor, Tensor]
    attention_norm: tuple[Tensor, Tensor]
    outer_norm: tuple[Tensor, Tensor]

    @classmethod
    def of(cls, block: Block) -> LayerWeights:
        """The weights of ``block``, shared with it."""
        names = cls._fields
        return cls(*((getattr(block, name).weight, getattr(block, name).bias) for name in names))


class Rates(NamedTuple):
    """What a layer does beyond its weights.

    Attributes:
        heads: of the attention.
        hidden: dropout of the maps' outputs.
        attention: dropout of the attention weights.
        eps: of the LayerNorms.
    """

    heads: int
    hidden: float
    attention: float
    eps: float


def layer_states(x: Tensor, bias: Tensor, weights: LayerWeights, rates: Rates, first: bool) -> Tensor:
    """One layer.

    Args:
        x: (rows, length, hidden).
        bias: (1 or rows, 1 or heads, 1 or length, length), added to the attention scores.
        weights: of the layer.
        rates: heads, and dropout rates (0 without dropout).
        first: compute the first token alone.

    Returns:
        (rows, length, hidden), or (rows, 1, hidden).
    """
    rows, _, hidden = x.shape
    size = hidden // rates.heads
    queried = x[:, :1] if first else x
    if first:
        q = _mapped(queried, weights.query)
        k, v = _mapped(x, weights.key, weights.value).chunk(2, dim=-1)
    else:
        q, k, v = _mapped(x, weights.query, weights.key, weights.value).chunk(3, dim=-1)
    q, k, v = (part.reshape(rows, -1, rates.heads, size).transpose(1, 2) for part in (q, k, v))
    mixed = _attention(q, k, v, bias[:, :, :1] if first else bias, rates.attention)
    mixed = mixed.transpose(1, 2).reshape(rows, -1, hidden)
    x = _added(queried, _mapped(mixed, weights.attention), weights.attention_norm, rates)
    inner = functional.gelu(_mapped(x, weights.inner))
    return _added(x, _mapped(inner, weights.outer), weights.outer_norm, rates)


def _mapped(x: Tensor, *parts: tuple[Tensor, Tensor]) -> Tensor:
    """The linear maps ``parts`` of ``x``, side by side, in the type of ``x``."""
    weight = parts[0][0] if len(parts) == 1 else torch.cat([one for one, _ in parts])
    bias = parts[0][1] if len(parts) == 1 else torch.cat([one for _, one in parts])
    return functional.linear(x, weight.to(x.dtype), bias.to(x.dtype))


def _attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, rate: float) -> Tensor:
    """(rows, heads, queries, size) as ``q``."""
    if k.shape[2] > _MATERIALISED:
        mask = bias.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=rate)
    scores = (q @ k.transpose(2, 3)).float() * q.shape[3] ** -0.5 + bias
    weights = functional.dropout(scores.softmax(dim=3).to(v.dtype), rate, training=rate > 0)
    return weights @ v


def _added(x: Tensor, change: Tensor, norm: tuple[Tensor, Tensor], rates: Rates) -> Tensor:
    """``norm(x + dropout(change))``; the norm is computed in float32."""
    total = x.float() + functional.dropout(change, rates.hidden, training=rates.hidden > 0)
    return functional.layer_norm(total, (x.shape[-1],), *norm, rates.eps).to(x.dtype)


def padded_states(
    backbone: PreTrainedModel,
    ids: Tensor,
    mask: Tensor,
    layers: Collection[int],
    *,
    first_only: bool = False,
    dropout: bool = False,
    disturb: Callable[[Tensor], Tensor] | None = None,
    leading: Tensor | None = None,
    dtype: torch.dtype | None = None,
    compiled: bool = False,
) -> dict[int, Tensor]:
    """Hidden states of some layers, with gradient.

    Args:
        backbone: one of BERT's shape.
        ids: (rows, length), padding on the right.
        mask: (rows, length), 1 at tokens.
        layers: layers from 0 (the embeddings' output) to the last.
        first_only: of the last layer only the first token is read; its states are (rows, 1, hidden).
        dropout: draw it, from torch's generator of the device.
        disturb: changes the (rows, length, hidden) token embeddings, if given.
        leading: (rows, hidden) vectors that replace the embeddings' output at the first token, if given.
        dtype: of the arithmetic; by default that of autocast, or else of the weights.
        compiled: compute each layer by `compiled_layer`.

    Returns:
        (rows, length, hidden) of each layer, of ``dtype``.
    """
    kind, length = ids.device.type, ids.shape[1]
    if dtype is None:
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else backbone.dtype
    shape = pack(backbone)
    rates = Rates(
        shape.heads,
        shape.hidden_rate if dropout else 0.0,
        shape.attention_rate if dropout else 0.0,
        float(backbone.config.layer_norm_eps),
    )
    layer = compiled_layer() if compiled else layer_states
    spare = -length % MULTIPLE if disturb is None else 0
    mask = functional.pad(mask, (0, spare))
    with torch.autocast(kind, enabled=False):
        x = _embedded(backbone, ids, spare, rates, disturb).to(dtype)
        if leading is not None:
            x = torch.cat([leading.to(dtype).unsqueeze(1), x[:, 1:]], dim=1)
        states = {0: x[:, :length]} if 0 in layers else {}
        bias = _bias(backbone, mask)
        for number, block in enumerate(shape.blocks, start=1):
            first = first_only and number == len(shape.blocks)
            x = layer(x, bias, LayerWeights.of(block), rates, first)
            if number in layers:
                states[number] = x[:, :length]
    return states


def _embedded(
    backbone: PreTrainedModel,
    ids: Tensor,
    spare: int,
    rates: Rates,
    disturb: Callable[[Tensor], Tensor] | None,
) -> Tensor:
    """(rows, length + spare, hidden): token, type and position embeddings, normalised, with dropout."""
    embeddings: Any = backbone.embeddings
    padding = embeddings.position_embeddings.padding_idx
    ids = functional.pad(ids, (0, spare), value=0 if padding is None else padding)
    x: Tensor = embeddings.word_embeddings(ids)
    if disturb is not None:
        x = disturb(x)
    if getattr(embeddings, "token_type_embeddings", None) is not None:
        x = x + embeddings.token_type_embeddings.weight[0]
    if padding is None:
        x = x + embeddings.position_embeddings.weight[: ids.shape[1]]
    else:
        x = x + embeddings.position_embeddings(roberta_positions(ids, padding))
    x = embeddings.LayerNorm(x)
    return functional.dropout(x, rates.hidden, training=rates.hidden > 0)


def _bias(backbone: PreTrainedModel, mask: Tensor) -> Tensor:
    """The bias of attention scores: minus infinity at padding, and MPNet's relative positions."""
    bias = torch.zeros(mask.shape, device=mask.device).masked_fill(mask == 0, float("-inf"))[:, None, None]
    relative = relative_bias(backbone, mask.shape[1])
    return bias if relative is None else relative + bias


@cache
def compiled_layer() -> Callable[[Tensor, Tensor, LayerWeights, Rates, bool], Tensor]:
    """`layer_states` compiled by torch: once for all shapes, shared by all layers of all encoders."""
    compiled: Callable[[Tensor, Tensor, LayerWeights, Rates, bool], Tensor] = torch.compile(layer_states, dynamic=True)
    return compiled
