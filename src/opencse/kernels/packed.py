"""A forward of BERT-shaped encoders on a CPU that computes no padding: every token of a batch is a row.

The same function of the same weights as transformers' own (BERT, RoBERTa, XLM-RoBERTa, MPNet), up to rounding. What it
saves: the rows of padding; the last layer's work on all tokens but the first, where only that one is read; a cast of
every weight and activation around each operation under autocast; and, in training, most of the cost of random numbers.
In inference weights are prepared once for the kernel that is fastest on this processor (`opencse.kernels.cpu`): torch's
own call packs oneDNN's weights again each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from opencse.errors import UserError
from opencse.kernels.cpu import (
    HeadPositions,
    Kernel,
    attention,
    bf16_kernel,
    float32_kernel,
    grouped,
    inferred_attention,
    linear,
    order_of_groups,
)
from opencse.text.tokenizer import Tokens

if TYPE_CHECKING:
    from transformers import PreTrainedModel


_LEVELS = 65_536  # a dropout rate is rounded to this many steps


def roberta_positions(ids: Tensor, padding: int) -> Tensor:
    """(rows, length) position numbers of RoBERTa, which does not count padding tokens inside a text.

    Example:
        >>> roberta_positions(torch.tensor([[0, 8, 1, 9, 2, 1]]), padding=1)
        tensor([[2, 3, 1, 4, 5, 1]])
    """
    counts = (ids != padding).long()
    return counts.cumsum(dim=1) * counts + padding


def relative_bias(backbone: PreTrainedModel, length: int) -> Tensor | None:
    """(1, heads, length, length) bias of the attention scores by MPNet's relative positions; None for other models."""
    encoder: Any = backbone.encoder
    if not hasattr(encoder, "compute_position_bias"):
        return None
    bias: Tensor = encoder.compute_position_bias(torch.empty(1, length, device=backbone.device))
    return bias


class Masks:
    """Draws the dropout masks of one forward; each is a function of the seed and the number of the draw.

    A small generator (SFC64) is some five times faster on a CPU than torch's Mersenne twister, whose draws take a fifth
    of a training step.
    """

    def __init__(self, seed: int) -> None:
        self._bits = np.random.SFC64(seed)

    def __call__(self, shape: Sequence[int], rate: float, like: Tensor) -> Tensor:
        """0 with probability ``rate`` (rounded to 2^-16), else 1, of ``shape``, of ``like``'s type and device."""
        count = math.prod(shape)
        # Each 64-bit word gives four draws of 16 bits.
        drawn = self._bits.random_raw(-(-count // 4)).view(np.uint16)[:count]
        survives = drawn >= np.uint16(min(round(rate * _LEVELS), _LEVELS - 1))
        if like.dtype == torch.bfloat16:
            one = np.multiply(survives, np.uint16(0x3F80), dtype=np.uint16).view(np.int16)  # the bits of 1.0
            mask = torch.from_numpy(one).view(torch.bfloat16)
        else:
            mask = torch.from_numpy(survives.astype(np.float32)).to(like.dtype)
        return mask.view(tuple(shape)).to(like.device)


@dataclass(frozen=True)
class Block:
    """The weights of one layer, shared with the backbone's own modules."""

    query: nn.Linear
    key: nn.Linear
    value: nn.Linear
    attention: nn.Linear
    attention_norm: nn.LayerNorm
    inner: nn.Linear
    outer: nn.Linear
    outer_norm: nn.LayerNorm

    @property
    def linears(self) -> tuple[nn.Linear, ...]:
        """All linear maps of the layer."""
        return self.query, self.key, self.value, self.attention, self.inner, self.outer

    def maps(self, *, apart: bool) -> Maps:
        """The linear maps of the current weights; with ``apart`` the query has a map of its own."""
        q, k, v = self.query, self.key, self.value
        return Maps(
            query=(lambda x: _joint(x, q)) if apart else None,
            others=(lambda x: _joint(x, k, v)) if apart else (lambda x: _joint(x, q, k, v)),
            attention=lambda x: _joint(x, self.attention),
            inner=lambda x: functional.gelu(_joint(x, self.inner)),
            outer=lambda x: _joint(x, self.outer),
        )


TensorMap = Callable[[Tensor], Tensor]
"""(T, in) -> (T, out)."""


Mix = Callable[[Tensor, Tensor | None], Tensor]
"""Computes attention from joined parts and, if only they have one, the first tokens' queries; see `attention`."""


@dataclass(frozen=True)
class Maps:
    """The linear maps of one layer as functions.

    Attributes:
        query: of the first tokens, where they alone are read; else None.
        others: key and value side by side; query, key and value where ``query`` is None.
        attention: of the attention output.
        inner: the first of the feed-forward part, with its activation.
        outer: its second.
    """

    query: TensorMap | None
    others: TensorMap
    attention: TensorMap
    inner: TensorMap
    outer: TensorMap


def round_count(tokens: int) -> int:
    """Rounds the number of rows of a packed batch up: by at most 1 in 32, by 1 in 90 on average.

    Every size makes oneDNN build and keep kernels of its own, and leaves holes in the heap that no other size fills; a
    run with new sizes in every step would grow by tens of megabytes per step.
    """
    step = max(1, (1 << tokens.bit_length()) // 64)
    return -(-tokens // step) * step


@dataclass(frozen=True)
class PackedRows:
    """Maps a padded batch to packed rows, one per token.

    Attributes:
        shape: (rows, length) of the padded batch.
        positions: (T,) of each packed row in the flattened padded batch: the tokens, then padding that makes T a
            `round_count`.
        tokens: how many of them are tokens.
        first: (rows,) packed row of each text's first token.
        blocked: (rows, 1, 1, length), minus infinity at padding, else 0; None where nothing is padded.
        lengths: tokens of each text.
    """

    shape: tuple[int, int]
    positions: Tensor
    tokens: int
    first: Tensor
    blocked: Tensor | None
    lengths: Sequence[int]

    @classmethod
    def of(cls, mask: Tensor, dtype: torch.dtype) -> PackedRows:
        """The rows of a (rows, length) mask, padding on the right."""
        rows, length = mask.shape
        counts = mask.sum(dim=1)
        lengths: list[int] = counts.tolist()
        blocked = None
        if min(lengths) < length:
            blocked = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
            blocked = blocked.masked_fill_(mask == 0, float("-inf"))[:, None, None]
        flat = mask.flatten()
        positions = flat.nonzero().squeeze(1)
        tokens = len(positions)
        # Padding fills up to a `round_count`; what is computed of it is dropped by `padded`.
        spare = (flat == 0).nonzero().squeeze(1)[: round_count(tokens) - tokens]
        return cls((rows, length), torch.cat([positions, spare]), tokens, counts.cumsum(0) - counts, blocked, lengths)

    def padded(self, packed: Tensor) -> Tensor:
        """(T, d) -> (rows, length, d), 0 at padding."""
        if self.blocked is None:
            return packed.view(*self.shape, -1)
        flat = packed.new_zeros(self.shape[0] * self.shape[1], packed.shape[1])
        return flat.index_copy(0, self.positions[: self.tokens], packed[: self.tokens]).view(*self.shape, -1)

    def packed(self, padded: Tensor) -> Tensor:
        """(rows, length, d) -> (T, d)."""
        flat = padded.reshape(-1, padded.shape[-1])
        return flat if self.blocked is None else flat.index_select(0, self.positions)


class PackedBackbone:
    """The packed forward of one backbone; it holds no weights of its own."""

    def __init__(self, backbone: PreTrainedModel, blocks: Sequence[Block]) -> None:
        config = backbone.config
        self.backbone = backbone
        self.blocks = blocks
        self.heads = int(config.num_attention_heads)
        self.hidden_rate = float(config.hidden_dropout_prob)
        self.attention_rate = float(config.attention_probs_dropout_prob)

    def states(
        self,
        ids: Tensor,
        mask: Tensor,
        layers: Collection[int],
        *,
        first_only: bool = False,
        seed: int | None = None,
        disturb: Callable[[Tensor], Tensor] | None = None,
        maps: Sequence[Maps] | None = None,
        dtype: torch.dtype | None = None,
        leading: Tensor | None = None,
    ) -> dict[int, Tensor]:
        """Hidden states of some layers.

        Args:
            ids: (rows, length), padding on the right.
            mask: (rows, length), 1 at tokens.
            layers: layers from 0 (the embeddings' output) to the last.
            first_only: of the last layer only the first token is read; its states are (rows, 1, hidden).
            seed: of the dropout masks; None leaves dropout out.
            disturb: changes the (rows, length, hidden) token embeddings, if given.
            maps: how each layer's linear maps are computed, made for ``first_only``; by default by its weights as they
                are.
            dtype: of the arithmetic; by default that of autocast, or else of the weights.
            leading: (rows, hidden) vectors that replace the embeddings' output at the first token, if given.

        Returns:
            (rows, length, hidden) of each layer, 0 at padding, of ``dtype``.
        """
        device = ids.device.type
        if dtype is None:
            dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else self.backbone.dtype
        drop = None if seed is None else Masks(seed)
        rows = PackedRows.of(mask, dtype)
        # All is in ``dtype`` already; autocast would cast weights and states again at each operation.
        with torch.autocast(device, enabled=False):
            x = self._embedded(ids, rows, drop, disturb).to(dtype)
            if leading is not None:
                x = x.index_copy(0, rows.first, leading.to(dtype))
            states = {0: rows.padded(x)} if 0 in layers else {}
            bias = self._position_bias(rows, dtype)
            mix: Mix | None = None
            for number, block in enumerate(self.blocks, start=1):
                first = first_only and number == len(self.blocks)
                computed = block.maps(apart=first) if maps is None else maps[number - 1]
                # All layers share the positions of the heads, but for a last one of first tokens alone.
                if mix is None or first:
                    mix = self._mix(rows, bias, drop, first=first, inferred=maps is not None)
                x = self._layer(block, computed, x, rows, mix, drop)
                if number in layers:
                    states[number] = x.unsqueeze(1) if first else rows.padded(x)
        return states

    def _embedded(
        self, ids: Tensor, rows: PackedRows, drop: Masks | None, disturb: Callable[[Tensor], Tensor] | None
    ) -> Tensor:
        """(T, hidden): token, type and position embeddings, normalised, with dropout."""
        embeddings: Any = self.backbone.embeddings
        x: Tensor
        if disturb is None:
            x = embeddings.word_embeddings(ids.flatten()[rows.positions])
        else:
            x = rows.packed(disturb(embeddings.word_embeddings(ids)))
        # Every token has type 0, as transformers takes it where no types are given.
        if getattr(embeddings, "token_type_embeddings", None) is not None:
            x = x + embeddings.token_type_embeddings.weight[0]
        padding = embeddings.position_embeddings.padding_idx
        if padding is None:
            numbers = rows.positions % ids.shape[1]
        else:
            numbers = roberta_positions(ids, padding).flatten()[rows.positions]
        x = x + embeddings.position_embeddings(numbers)
        x = embeddings.LayerNorm(x)
        if drop is None or self.hidden_rate == 0:
            return x
        return x * drop(x.shape, self.hidden_rate, x) / (1 - self.hidden_rate)

    def _position_bias(self, rows: PackedRows, dtype: torch.dtype) -> Tensor | None:
        """The bias of attention scores, of a shape that broadcasts to theirs: relative positions, padding."""
        relative = relative_bias(self.backbone, rows.shape[1])
        if relative is None:
            return rows.blocked
        relative = relative.to(dtype)
        return relative if rows.blocked is None else relative + rows.blocked

    def _mix(self, rows: PackedRows, bias: Tensor | None, drop: Masks | None, *, first: bool, inferred: bool) -> Mix:
        """The attention of layers; of ``first`` tokens alone, or of all."""
        bias = bias[:, :, :1] if first and bias is not None else bias
        if inferred:
            return lambda joined, query: inferred_attention(joined, query, rows.shape, rows.positions, self.heads, bias)
        groups = grouped(rows.lengths, rows.shape[1], rows.first)
        if groups is None:
            return self._trained_mix(rows.shape, rows.positions, bias, drop, first=first)
        mixes = [
            self._trained_mix(group.shape, group.positions, group.bias(bias), drop, first=first) for group in groups
        ]
        row_order = order_of_groups(groups, len(rows.first if first else rows.positions), by_row=first)
        tokens = torch.cat([group.packed_rows for group in groups])
        texts = torch.cat([group.rows for group in groups])

        def mix(joined: Tensor, query: Tensor | None) -> Tensor:
            # one gather for all groups: the gradient of one for each would be a whole batch of zeros each
            joined_of = torch.split(joined.index_select(0, tokens), [len(group.packed_rows) for group in groups])
            query_of: Sequence[Tensor | None] = [None] * len(groups)
            if query is not None:
                query_of = torch.split(query.index_select(0, texts), [len(group.rows) for group in groups])
            parts = [one(rows, of_first) for one, rows, of_first in zip(mixes, joined_of, query_of, strict=True)]
            return torch.cat(parts).index_select(0, row_order)

        return mix

    def _trained_mix(
        self, shape: tuple[int, int], positions: Tensor, bias: Tensor | None, drop: Masks | None, *, first: bool
    ) -> Mix:
        """The attention, with gradient, of tokens at ``positions`` of a flattened batch of ``shape``."""
        head_positions = HeadPositions.of(shape, positions, self.heads, parts=2 if first else 3)
        rows, length = shape
        of_scores = (rows, self.heads, 1 if first else length, length)
        if drop is None or self.attention_rate == 0:
            return lambda joined, query: attention(joined, query, head_positions, bias, None, 0.0)
        rate = self.attention_rate
        return lambda joined, query: attention(joined, query, head_positions, bias, drop(of_scores, rate, joined), rate)

    def _layer(self, block: Block, maps: Maps, x: Tensor, rows: PackedRows, mix: Mix, drop: Masks | None) -> Tensor:
        """(T, hidden) -> (T, hidden), or (rows, hidden) of the first tokens."""
        joined, query = maps.others(x), None
        if maps.query is not None:
            x = x[rows.first]
            query = maps.query(x)
        x = self._added(x, maps.attention(mix(joined, query)), block.attention_norm, drop)
        return self._added(x, maps.outer(maps.inner(x)), block.outer_norm, drop)

    def _added(self, x: Tensor, change: Tensor, norm: nn.LayerNorm, drop: Masks | None) -> Tensor:
        """``norm(x + dropout(change))``."""
        if drop is None or self.hidden_rate == 0:
            total = x + change
        else:
            dropped = change * drop(change.shape, self.hidden_rate, change)
            # Dropout's scale goes into the sum: one pass over the memory less.
            total = torch.add(x, dropped, alpha=1 / (1 - self.hidden_rate))
        return functional.layer_norm(total, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


def why_not_packed(backbone: PreTrainedModel) -> str | None:
    """The reason why `pack` has no packed forward for ``backbone``; None where it has one."""
    from transformers import BertModel, MPNetModel, RobertaModel, XLMRobertaModel

    config = backbone.config
    # By exact type: a subclass may compute something else in the same layers.
    known_type = type(backbone) in (BertModel, RobertaModel, XLMRobertaModel, MPNetModel)
    if not known_type or config.hidden_act != "gelu" or getattr(config, "is_decoder", False):
        return f"{config.model_type} is not of BERT's shape (bert, roberta, xlm-roberta, mpnet, with gelu)"
    encoder: Any = backbone.encoder
    linears = [part for layer in encoder.layer for part in _block(layer).linears]
    if any(type(part) is not nn.Linear or part.bias is None for part in linears):
        return "the backbone has layers that are not plain linear maps"
    return None


def pack(backbone: PreTrainedModel) -> PackedBackbone:
    """The packed forward of ``backbone``; making it costs nothing.

    Raises:
        UserError: where it is of another shape than BERT's.
    """
    why = why_not_packed(backbone)
    if why is not None:
        raise UserError(f"training.packed: {why}; set it to auto")
    encoder: Any = backbone.encoder
    return PackedBackbone(backbone, [_block(layer) for layer in encoder.layer])


def _joint(x: Tensor, *linears: nn.Linear) -> Tensor:
    """Several linear maps of ``x`` in one product, in the type of ``x``."""
    return linear(x, [part.weight for part in linears], [part.bias for part in linears])


def _block(layer: nn.Module) -> Block:
    """The weights of a layer of BERT's kind or of MPNet's."""
    attention: Any = layer.attention
    of: Any = layer
    if hasattr(attention, "attn"):
        inside = attention.attn
        query, key, value, out, norm = inside.q, inside.k, inside.v, inside.o, attention.LayerNorm
    else:
        inside = attention.self
        query, key, value = inside.query, inside.key, inside.value
        out, norm = attention.output.dense, attention.output.LayerNorm
    return Block(
        query=query,
        key=key,
        value=value,
        attention=out,
        attention_norm=norm,
        inner=of.intermediate.dense,
        outer=of.output.dense,
        outer_norm=of.output.LayerNorm,
    )


_ROWS = 1_024
"""Number of rows that oneDNN packs the weights for; products of other numbers of rows give the same result."""


class InferenceForward:
    """Computes the hidden states of BERT-shaped backbones on a CPU without gradient, faster than transformers does.

    It works on prepared copies of the weights (but for float32 by torch's own call, where only query, key and value are
    joined). They are used until the weights change as far as torch records it: by the tensors themselves and the count
    of their changes in place; no weight is read for that. What torch does not record (writing through ``.data``, the
    step of a fused optimizer) needs `forget`, which the encoder calls whenever its mode is set (`train`, `eval`) and
    before every forward with gradient. Copies and pickles of an encoder leave the prepared weights out.
    """

    def __init__(self) -> None:
        self._prepared: tuple[object, list[Maps]] | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> InferenceForward:
        return InferenceForward()

    def __reduce__(self) -> tuple[Callable[[], InferenceForward], tuple[()]]:
        return InferenceForward, ()

    @staticmethod
    def supports(backbone: PreTrainedModel, tokens: Tokens) -> bool:
        """Whether this forward can encode ``tokens``: float32 weights of BERT's shape, on a CPU, without gradient."""
        on_cpu = tokens.input_ids.device.type == "cpu" and not torch.is_grad_enabled()
        return on_cpu and backbone.dtype == torch.float32 and why_not_packed(backbone) is None

    def states(
        self,
        backbone: PreTrainedModel,
        tokens: Tokens,
        layers: Sequence[int],
        *,
        first: bool = False,
        bf16: bool = False,
    ) -> Sequence[Tensor]:
        """(rows, length, hidden) of each of ``layers``.

        Args:
            backbone: one that it `supports`.
            tokens: of the texts.
            layers: from 0 (the embeddings' output) to the last.
            first: of the last layer compute the first token alone.
            bf16: compute in bf16.
        """
        packed = pack(backbone)
        dtype, kernel = (torch.bfloat16, bf16_kernel()) if bf16 else (torch.float32, float32_kernel())
        maps = self._maps(packed.blocks, kernel, dtype, first_only=first)
        states = packed.states(
            tokens.input_ids, tokens.attention_mask, layers, first_only=first, maps=maps, dtype=dtype
        )
        return [states[layer] for layer in layers]

    def forget(self) -> None:
        """Drops the prepared weights: the next call prepares them again, of the weights as they are then."""
        self._prepared = None

    def _maps(self, blocks: Sequence[Block], kernel: Kernel, dtype: torch.dtype, *, first_only: bool) -> list[Maps]:
        """The maps of each layer, made again when weights have changed; if ``first_only``, the last query by itself."""
        weights = [t for block in blocks for linear in block.linears for t in (linear.weight, linear.bias)]
        stamp = (kernel, dtype, first_only, _stamp_of(weights))
        prepared = self._prepared  # read and set as one, for threads that share an encoder
        if prepared is None or prepared[0] != stamp:
            last = len(blocks) - 1
            maps = [_prepared(block, kernel, dtype, apart=first_only and i == last) for i, block in enumerate(blocks)]
            prepared = self._prepared = (stamp, maps)
        return prepared[1]


def _stamp_of(tensors: Sequence[Tensor]) -> tuple[object, ...]:
    """What torch records of the tensors: where they are in memory, and how often they were changed in place."""
    # Tensors of inference mode have no count of changes: reading it raises.
    return tuple((t.data_ptr(), 0 if t.is_inference() else t._version) for t in tensors)


def _prepared(block: Block, kernel: Kernel, dtype: torch.dtype, *, apart: bool) -> Maps:
    """The maps of one layer; ``apart``: query by itself, else with key and value in one product."""

    def joined(*linears: nn.Linear, gelu: bool = False) -> TensorMap:
        """(T, in) -> (T, out), with GELU (by erf) after it if asked."""
        weight = torch.cat([linear.weight for linear in linears]) if len(linears) > 1 else linears[0].weight
        bias = torch.cat([linear.bias for linear in linears]) if len(linears) > 1 else linears[0].bias
        weight, bias = weight.to(dtype), bias.to(dtype)
        if kernel == "torch":
            if gelu:
                return lambda x: functional.gelu(functional.linear(x, weight, bias))
            return lambda x: functional.linear(x, weight, bias)
        # torch.compile packs weights by these calls; there are no public ones.
        reorder: Any = torch.ops.mkldnn._reorder_linear_weight
        call: Any = torch.ops.mkldnn._linear_pointwise
        ordered = reorder(weight.contiguous(), _ROWS)
        after: tuple[Any, ...] = ("gelu", [], "none") if gelu else ("none", [], "")
        return lambda x: call(x, ordered, bias, *after)

    q, k, v = block.query, block.key, block.value
    return Maps(
        query=joined(q) if apart else None,
        others=joined(k, v) if apart else joined(q, k, v),
        attention=joined(block.attention),
        inner=joined(block.inner, gelu=True),
        outer=joined(block.outer),
    )
