"""A forward of BERT-shaped encoders for training on a GPU: one product for query, key and value, and few kernels.

The same function of the same weights as transformers' own, up to rounding and dropout's draws. A GPU that trains a
small encoder waits for the processor that launches its kernels: transformers' forward and backward under autocast are
some 1,500 of them. Here weights are cast once per layer, and the last layer computes the first token alone where only
that one is read. `opencse.kernels.fused` computes the same layers in fewer kernels still, where Triton is there. Texts
are padded to multiples of 8 ids: tensor cores want that, and few shapes are recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from opencse.errors import reason, shortened
from opencse.kernels.packed import Block, pack, relative_bias, roberta_positions

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MULTIPLE = 8
"""What divides the length of a batch."""
FUSED = {torch.bfloat16: 128, torch.float16: 128, torch.float32: 32}
"""Longest texts that `opencse.kernels.fused` computes, in ids; one program holds all scores of a head."""
WIDEST = 64
"""Widest heads that it computes, in dimensions."""
_MATERIALISED = 128
"""Longest texts whose attention scores are written out; for longer ones torch's fused attention is faster."""


class LayerWeights(NamedTuple):
    """The weights of one layer: (weight, bias) of each map, then of each norm."""

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
        mask = bias.to(q.dtype).expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])  # cuDNN misreads another type
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
    fused: bool = False,
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
        fused: compute the layers by `opencse.kernels.fused`, where they fit.

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
    spare = -length % MULTIPLE if disturb is None else 0
    mask = functional.pad(mask, (0, spare))
    with torch.autocast(kind, enabled=False):
        x = _embedded(backbone, ids, spare, rates, disturb).to(dtype)
        if leading is not None:
            x = torch.cat([leading.to(dtype).unsqueeze(1), x[:, 1:]], dim=1)
        states = {0: x[:, :length]} if 0 in layers else {}
        if fused and mask.shape[1] <= FUSED.get(dtype, 0) and unfit_for_fusing(backbone) is None:
            layer = _fused(shape.blocks, mask, dtype, rates)
        else:
            layer = _plain(shape.blocks, _bias(backbone, mask), rates)
        for number in range(1, len(shape.blocks) + 1):
            x = layer(x, number - 1, first_only and number == len(shape.blocks))
            if number in layers:
                states[number] = x[:, :length]
    return states


def why_not_fused(backbone: PreTrainedModel) -> str | None:
    """The reason why layers of ``backbone``, one of BERT's shape on a GPU, are not fused; None where they are."""
    return unfit_for_fusing(backbone) or unfit_for_triton(backbone.device)


def unfit_for_fusing(backbone: PreTrainedModel) -> str | None:
    """The reason why the layers of ``backbone``, one of BERT's shape, cannot be fused; None where they can."""
    if hasattr(backbone.encoder, "compute_position_bias"):
        return "attention with relative positions"
    config = backbone.config
    size = config.hidden_size // config.num_attention_heads
    return f"heads of {size} dimensions, more than {WIDEST}" if size > WIDEST else None


@cache
def unfit_for_triton(device: torch.device) -> str | None:
    """The reason why Triton's kernels do not run on ``device``; None where a small one did."""
    try:
        from opencse.kernels.triton_rows import gelu

        zeros = torch.zeros(1, 16, device=device)
        with torch.cuda.device_of(zeros):  # type: ignore[no-untyped-call]
            gelu(zeros, zeros[0])
    except Exception as error:  # of many kinds: no package, no C compiler, a GPU that it does not know
        return f"Triton does not run: {shortened(reason(error), 200)}"
    return None


_Layer = Callable[[Tensor, int, bool], Tensor]
"""Computes a layer from its input, its number from 0, and whether the first token alone is computed."""


def _plain(blocks: Sequence[Block], bias: Tensor, rates: Rates) -> _Layer:
    """The layers by `layer_states`."""
    return lambda x, number, first: layer_states(x, bias, LayerWeights.of(blocks[number]), rates, first)


def _fused(blocks: Sequence[Block], mask: Tensor, dtype: torch.dtype, rates: Rates) -> _Layer:
    """The layers by `opencse.kernels.fused`, of the current weights."""
    from opencse.kernels.fused import SLOTS, Setting, copied, fused_layer

    seeds = None
    if rates.hidden or rates.attention:
        seeds = torch.randint(2**62, (len(blocks) * SLOTS,), device=mask.device)
    setting = Setting(mask.contiguous(), rates.heads, rates.hidden, rates.attention, rates.eps, seeds)
    copies = copied(blocks, dtype)
    return lambda x, number, first: fused_layer(x, blocks[number], copies[number], setting, number, first)


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
    if padding is None:
        shift = embeddings.position_embeddings.weight[: ids.shape[1]]
    else:
        shift = embeddings.position_embeddings(roberta_positions(ids, padding))
    if getattr(embeddings, "token_type_embeddings", None) is not None:
        shift = shift + embeddings.token_type_embeddings.weight[0]  # before they meet the texts, which are larger
    x = embeddings.LayerNorm(x + shift)
    return functional.dropout(x, rates.hidden, training=rates.hidden > 0)


def _bias(backbone: PreTrainedModel, mask: Tensor) -> Tensor:
    """The bias of attention scores: minus infinity at padding, and MPNet's relative positions."""
    bias = torch.zeros(mask.shape, device=mask.device).masked_fill(mask == 0, float("-inf"))[:, None, None]
    relative = relative_bias(backbone, mask.shape[1])
    return bias if relative is None else relative + bias
