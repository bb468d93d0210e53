"""A forward of BERT-shaped encoders for training on a GPU: one product for query, key and value, and few kernels.

The same function of the same weights as transformers' own, up to rounding and dropout's draws. A GPU that trains a
small encoder waits for the processor that launches its kernels: transformers' forward and backward under autocast are
some 1,500 of them. Here weights are cast once per layer, and the last layer computes the first token alone where only
that one is read. Texts are padded to multiples of 8 ids: tensor cores want that, and few shapes are recorded.

Where Triton is there, the layers of short texts are fused: its kernels compute what is between the products. Forward a
layer is then eight kernels and backward sixteen, where torch's own operations are some hundred. The backward passes are
written out below, as autograd would add up and cast what the products can add and write themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from opencse.errors import reason, shortened
from opencse.kernels.packed import Block, pack, relative_bias, roberta_positions

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from opencse.kernels.triton_kernels import SeededDropout


MULTIPLE = 8
"""What divides the length of a batch."""
FUSED = {torch.bfloat16: 128, torch.float16: 128, torch.float32: 32}
"""Longest texts that `opencse.kernels.gpu` computes, in ids; one program holds all scores of a head."""
WIDEST = 64
"""Widest heads that it computes, in dimensions."""
_MATERIALISED = 128
"""Longest texts whose attention scores are written out; for longer ones torch's fused attention is faster."""


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
    seeds: Tensor | None = None

    def draws(self, number: int, slot: int) -> SeededDropout:
        """The dropout at place ``slot`` (from 0, in the order of the layer) of layer ``number``."""
        from opencse.kernels.triton_kernels import SeededDropout

        rate = self.hidden_rate if slot else self.attention_rate
        return SeededDropout(rate, self.seeds, number * SLOTS + slot)


def layer_states(x: Tensor, bias: Tensor, block: Block, setting: Setting, first: bool) -> Tensor:
    """One layer.

    Args:
        x: (rows, length, hidden).
        bias: (1 or rows, 1 or heads, 1 or length, length), added to the attention scores.
        block: the block.
        setting: heads, and dropout rates (0 without dropout).
        first: compute the first token alone.

    Returns:
        (rows, length, hidden), or (rows, 1, hidden).
    """
    rows, _, hidden = x.shape
    size = hidden // setting.heads
    queried = x[:, :1] if first else x
    if first:
        q = _mapped(queried, block.query)
        k, v = _mapped(x, block.key, block.value).chunk(2, dim=-1)
    else:
        q, k, v = _mapped(x, block.query, block.key, block.value).chunk(3, dim=-1)
    q, k, v = (part.reshape(rows, -1, setting.heads, size).transpose(1, 2) for part in (q, k, v))
    mixed = _attention(q, k, v, bias[:, :, :1] if first else bias, setting.attention_rate)
    mixed = mixed.transpose(1, 2).reshape(rows, -1, hidden)
    x = _added(queried, _mapped(mixed, block.attention), block.attention_norm, setting)
    inner = functional.gelu(_mapped(x, block.inner))
    return _added(x, _mapped(inner, block.outer), block.outer_norm, setting)


def _mapped(x: Tensor, *parts: nn.Linear) -> Tensor:
    """The linear maps ``parts`` of ``x``, side by side, in the type of ``x``."""
    weight = parts[0].weight if len(parts) == 1 else torch.cat([one.weight for one in parts])
    bias = parts[0].bias if len(parts) == 1 else torch.cat([one.bias for one in parts])
    return functional.linear(x, weight.to(x.dtype), bias.to(x.dtype))


def _attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, rate: float) -> Tensor:
    """(rows, heads, queries, size) as ``q``."""
    if k.shape[2] > _MATERIALISED:
        mask = bias.to(q.dtype).expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])  # cuDNN misreads another type
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=rate)
    # The softmax is in float32, as under autocast.
    scores = (q @ k.transpose(2, 3)).float() * q.shape[3] ** -0.5 + bias
    weights = functional.dropout(scores.softmax(dim=3).to(v.dtype), rate, training=rate > 0)
    return weights @ v


def _added(x: Tensor, change: Tensor, norm: nn.LayerNorm, setting: Setting) -> Tensor:
    """``norm(x + dropout(change))``; the norm is computed in float32."""
    total = x.float() + functional.dropout(change, setting.hidden_rate, training=setting.hidden_rate > 0)
    return functional.layer_norm(total, (x.shape[-1],), norm.weight, norm.bias, setting.eps).to(x.dtype)


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
        fused: compute the layers by `opencse.kernels.gpu`, where they fit.

    Returns:
        (rows, length, hidden) of each layer, of ``dtype``.
    """
    kind, length = ids.device.type, ids.shape[1]
    if dtype is None:
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else backbone.dtype
    shape = pack(backbone)
    # A disturbance is made for the texts' own length.
    spare = -length % MULTIPLE if disturb is None else 0
    mask = functional.pad(mask, (0, spare))
    rates = (shape.hidden_rate, shape.attention_rate) if dropout else (0.0, 0.0)
    setting = Setting(mask, shape.heads, *rates, float(backbone.config.layer_norm_eps))
    with torch.autocast(kind, enabled=False):
        x = _embedded(backbone, ids, spare, setting.hidden_rate, disturb).to(dtype)
        if leading is not None:
            x = torch.cat([leading.to(dtype).unsqueeze(1), x[:, 1:]], dim=1)
        states = {0: x[:, :length]} if 0 in layers else {}
        if fused and mask.shape[1] <= FUSED.get(dtype, 0) and unfit_for_fusing(backbone) is None:
            layer = _fused(shape.blocks, dtype, setting)
        else:
            bias = _bias(backbone, mask)

            def layer(x: Tensor, number: int, first: bool) -> Tensor:
                return layer_states(x, bias, shape.blocks[number], setting, first)

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
        from opencse.kernels.triton_kernels import gelu

        # One small kernel is compiled and run: nothing else shows whether Triton works here.
        zeros = torch.zeros(1, 16, device=device)
        with torch.cuda.device_of(zeros):  # type: ignore[no-untyped-call]
            gelu(zeros, zeros[0])
    except Exception as error:  # of many kinds: no package, no C compiler, a GPU that it does not know
        return f"Triton does not run: {shortened(reason(error), 200)}"
    return None


_Layer = Callable[[Tensor, int, bool], Tensor]
"""Computes a layer from its input, its number from 0, and whether the first token alone is computed."""


def _fused(blocks: Sequence[Block], dtype: torch.dtype, setting: Setting) -> _Layer:
    """The layers by Triton's kernels, of the current weights."""
    if setting.hidden_rate or setting.attention_rate:
        # On the device, so that a recorded step draws new masks at each replay.
        seeds = torch.randint(2**62, (len(blocks) * SLOTS,), device=setting.mask.device)
        setting = setting._replace(seeds=seeds)
    setting = setting._replace(mask=setting.mask.contiguous())
    copies = copied(blocks, dtype)
    return lambda x, number, first: fused_layer(x, blocks[number], copies[number], setting, number, first)


def _embedded(
    backbone: PreTrainedModel,
    ids: Tensor,
    spare: int,
    rate: float,
    disturb: Callable[[Tensor], Tensor] | None,
) -> Tensor:
    """(rows, length + spare, hidden): token, type and position embeddings, normalised, with dropout."""
    embeddings: Any = backbone.embeddings
    padding = embeddings.position_embeddings.padding_idx
    # RoBERTa numbers positions by what is not its padding id.
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
    return functional.dropout(x, rate, training=rate > 0)


def _bias(backbone: PreTrainedModel, mask: Tensor) -> Tensor:
    """The bias of attention scores: minus infinity at padding, and MPNet's relative positions."""
    bias = torch.zeros(mask.shape, device=mask.device).masked_fill(mask == 0, float("-inf"))[:, None, None]
    relative = relative_bias(backbone, mask.shape[1])
    return bias if relative is None else relative + bias


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
        from opencse.kernels.triton_kernels import added_norm, attention

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
        from opencse.kernels.triton_kernels import added_norm_gradients, attention_gradients

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
        from opencse.kernels.triton_kernels import added_norm, gelu

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
        from opencse.kernels.triton_kernels import added_norm_gradients, gelu_gradients

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
