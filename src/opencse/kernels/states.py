"""Hidden states of a backbone in training: by transformers' own forward or by one of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from opencse.errors import UserError
from opencse.kernels.gpu import padded_states, why_not_fused
from opencse.kernels.packed import pack, why_not_packed
from opencse.text.tokenizer import Tokens

if TYPE_CHECKING:
    from transformers import PreTrainedModel


Disturb = Callable[[Tensor], Tensor]
"""A change of the input embeddings: (rows, length, hidden) -> the same shape."""


@dataclass(frozen=True)
class MaskedTokens:
    """A masked copy of some texts.

    Attributes:
        tokens: of the texts.
        positions: (rows, length) bool, the positions to predict. Keep them on the CPU: on a GPU, counting them waits
            for all work in flight.
        labels: (M,) ids of the hidden tokens; with them the forward returns losses instead of logits.
    """

    tokens: Tokens
    positions: Tensor
    labels: Tensor | None = None


@dataclass(frozen=True)
class Encoded:
    """The output of one training forward.

    Attributes:
        sentence: (rows, d) vectors after the training head; None if there were no sentences.
        layers: the same for each requested intermediate layer, pooled and projected in the same way.
        masked_logits: (M, vocabulary) at the masked positions, or None.
        masked_losses: (M,) cross-entropy there, where the hidden tokens were given; else None.
        pooled: (rows, hidden) pooled vectors before the dense layers and the training head.
    """

    sentence: Tensor | None
    layers: dict[int, Tensor] = field(default_factory=dict)
    masked_logits: Tensor | None = None
    masked_losses: Tensor | None = None
    pooled: Tensor | None = None

    @property
    def vectors(self) -> Tensor:
        """(rows, d) ``sentence``, where it must be there."""
        if self.sentence is None:
            raise RuntimeError("the encoder returned no sentence vectors")
        return self.sentence


Computation = Literal["transformers", "packed", "padded", "fused"]
"""What computes the training forward: transformers; without padding (`opencse.kernels.packed`, on a CPU); with padding
in few kernels (`opencse.kernels.gpu`, on a GPU); the same with layers by Triton (`opencse.kernels.gpu`)."""
ON_GPU: tuple[Computation, ...] = ("padded", "fused")
"""Those of `opencse.kernels.gpu`."""


def plain_states(
    backbone: PreTrainedModel,
    tokens: Tokens,
    *,
    need_all: bool = False,
    disturb: Disturb | None = None,
    leading: Tensor | None = None,
) -> Sequence[Tensor]:
    """(rows, length, hidden) of all layers or the last, as transformers computes them.

    Args:
        backbone: any transformers encoder.
        tokens: of the texts.
        need_all: the embeddings' output and every layer's, not the last one's alone.
        disturb: changes the token embeddings, if given.
        leading: (rows, hidden) vectors that replace the embeddings' output at the first token (after its LayerNorm and
            dropout, no position added), if given.

    Raises:
        UserError: where ``leading`` has another length than the embeddings' output, or the backbone has no module
            called ``embeddings``.
    """
    mask = tokens.attention_mask
    # transformers looks whether the mask is all ones; on a GPU that waits for all work in flight.
    if mask.device.type != "cpu":
        mask = unread_mask(backbone, mask)
    with nullcontext() if leading is None else _with_first_token(backbone, leading):
        if disturb is None:
            output = backbone(input_ids=tokens.input_ids, attention_mask=mask, output_hidden_states=need_all)
        else:
            words = disturb(backbone.get_input_embeddings()(tokens.input_ids))
            output = backbone(inputs_embeds=words, attention_mask=mask, output_hidden_states=need_all)
    return output.hidden_states if need_all else (output.last_hidden_state,)


@contextmanager
def _with_first_token(backbone: PreTrainedModel, leading: Tensor) -> Iterator[None]:
    """Replaces the embeddings' output at the first token by ``leading`` within the block."""

    def replace(module: nn.Module, args: object, output: Tensor) -> Tensor:
        del module, args
        if output.shape[-1] != leading.shape[-1]:
            raise UserError(
                f"vectors of {leading.shape[-1]} dimensions cannot replace a token's embedding of {output.shape[-1]}"
            )
        return torch.cat([leading.to(output.dtype).unsqueeze(1), output[:, 1:]], dim=1)

    handle = embedding_module(backbone).register_forward_hook(replace)
    try:
        yield
    finally:
        handle.remove()


def embedding_module(backbone: PreTrainedModel) -> nn.Module:
    """The module whose output the layers read: token and position embeddings, normalised, with dropout.

    Raises:
        UserError: where the backbone has no module called ``embeddings``.
    """
    module = dict(backbone.named_children()).get("embeddings")
    if module is None:
        raise UserError(
            f"a {backbone.config.model_type} backbone has no module called embeddings, so no vector can replace the "
            "first token's embedding; choose another model, or another recipe"
        )
    return module


def unread_mask(backbone: PreTrainedModel, mask: Tensor) -> Tensor:
    """``mask`` in the shape that transformers' attention uses without reading it, where ``backbone`` is of BERT's kind.

    It reads a (rows, length) mask to see whether anything is padded, and a GPU must finish all its work to be read.

    Args:
        backbone: any transformers encoder; for one of another kind, or without torch's attention, the mask stays.
        mask: (rows, length), 1 at tokens.

    Returns:
        (rows, 1, length, length), true at tokens; or ``mask``.
    """
    from transformers import BertModel, RobertaModel, XLMRobertaModel

    kinds = (BertModel, RobertaModel, XLMRobertaModel)
    if type(backbone) not in kinds or backbone.config.is_decoder or backbone.config._attn_implementation != "sdpa":
        return mask
    return mask.bool()[:, None, None].expand(-1, -1, mask.shape[1], -1)


def inference_computation(backbone: PreTrainedModel, *, bf16: bool) -> Computation:
    """What computes the forward of inference where `opencse.kernels.packed` does not: ours in bf16 on a GPU.

    Args:
        backbone: any transformers encoder.
        bf16: whether it is computed in bf16. Float32 stays with transformers, whose attention is fused.
    """
    ours = bf16 and backbone.device.type == "cuda" and not torch.is_grad_enabled() and why_not_packed(backbone) is None
    if not ours:
        return "transformers"
    return "fused" if why_not_fused(backbone) is None else "padded"


def trained_states(
    backbone: PreTrainedModel,
    tokens: Tokens,
    layers: Sequence[int],
    computation: Computation,
    *,
    first: bool = False,
    disturb: Disturb | None = None,
    dropout: bool,
    leading: Tensor | None = None,
) -> Sequence[Tensor]:
    """(rows, length, hidden) of each of ``layers`` with gradient, by a forward of ours.

    Args:
        backbone: one of BERT's shape.
        tokens: of the texts.
        layers: from 0 (the embeddings' output) to the last.
        computation: ``packed``, ``padded`` or ``fused``.
        first: of the last layer compute the first token alone.
        disturb: changes the token embeddings, if given.
        dropout: draw it; packed, from a seed that torch's generator gives.
        leading: (rows, hidden) vectors that replace the embeddings' output at the first token, if given.
    """
    ids, mask = tokens.input_ids, tokens.attention_mask
    if computation != "packed":
        by_layer = padded_states(
            backbone,
            ids,
            mask,
            layers,
            first_only=first,
            dropout=dropout,
            disturb=disturb,
            leading=leading,
            fused=computation == "fused" and ids.is_cuda,
        )
        return [by_layer[layer] for layer in layers]
    # From torch's generator, whose state is in the checkpoint: a resumed run draws the same masks.
    seed = int(torch.randint(2**62, (), device=mask.device)) if dropout else None
    states = pack(backbone).states(ids, mask, layers, first_only=first, seed=seed, disturb=disturb, leading=leading)
    return [states[layer] for layer in layers]
