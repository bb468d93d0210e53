"""Masked language modelling by new layers that read the sentence vector, as an extra loss (InfoCSE)."""

from __future__ import annotations

import copy
from collections.abc import Sequence, Set
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.kernels.states import plain_states
from opencse.objective.context import Context
from opencse.objective.losses.tokens import masked_lm
from opencse.objective.terms.base import Term
from opencse.objective.vectors.generator import seeded
from opencse.objective.vectors.masking import Masking
from opencse.objective.vectors.network import sums_by_row, through
from opencse.objective.vectors.requests import LmHead, MaskedViews, Pooled, Sentences
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.settings import PartSettings
from opencse.streams import seed_of
from opencse.text.moving import moved
from opencse.text.tokenizer import Tokens

_LOSS, _COUNTED = range(2)
"""Columns of `ConditionalMLM.compute`."""


class _VectorReader(nn.Module):
    """States of a masked text by layers that read the sentence vector in place of the first token's state.

    Attributes:
        lower: the first layers of the start, frozen and without dropout.
        depth: how many layers they are.
        layers: new ones of the backbone's width, trained; normal of standard deviation .02, zero biases.
        head: a copy of the masked-LM head, trained.
    """

    def __init__(self, encoder: SentenceEncoder, depth: int, layers: int, seed: int) -> None:
        super().__init__()
        assert encoder.lm_head is not None
        config = encoder.backbone.config
        self.depth = depth
        self.lower: Any = copy.deepcopy(encoder.backbone).requires_grad_(False)
        stack: Any = getattr(self.lower, "encoder", None)
        if isinstance(getattr(stack, "layer", None), nn.ModuleList):
            stack.layer = stack.layer[:depth]  # the others are not computed
        self.head = copy.deepcopy(encoder.lm_head)
        dropout = float(getattr(config, "hidden_dropout_prob", 0.1))
        with seeded(seed, torch.device("cpu")):
            layer = nn.TransformerEncoderLayer(
                int(config.hidden_size),
                int(config.num_attention_heads),
                int(getattr(config, "intermediate_size", 4 * config.hidden_size)),
                dropout,
                "gelu",
                layer_norm_eps=1e-12,
                batch_first=True,
            )
            self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
            for module in self.layers.modules():
                if isinstance(module, nn.Linear):
                    nn.init.normal_(module.weight, std=0.02)
                    nn.init.zeros_(module.bias)
                elif isinstance(module, nn.MultiheadAttention):
                    nn.init.normal_(module.in_proj_weight, std=0.02)
        self.layers.to(encoder.device)
        self.train()  # but not the frozen layers

    def train(self, mode: bool = True) -> _VectorReader:
        """Sets training mode, but for the frozen layers."""
        super().train(mode)
        self.lower.eval()
        return self

    def forward(self, tokens: Tokens, vectors: Tensor) -> Tensor:
        """(rows, length, hidden).

        Args:
            tokens: (rows, length), masked.
            vectors: (rows, hidden), of the sentences.
        """
        with torch.no_grad():
            states = plain_states(self.lower, tokens, need_all=True)[self.depth]
        read = torch.cat([vectors.to(states.dtype).unsqueeze(1), states[:, 1:]], dim=1)
        out: Tensor = self.layers(read, src_key_padding_mask=tokens.attention_mask == 0)
        return out


class ConditionalMLM(Term):
    """Masked language modelling whose last layers read the sentence vector (InfoCSE, section 3).

    A frozen copy of the start's first layers F reads a copy x' of each of the 2N texts of the views of which ``rate``
    of the tokens are hidden. New layers A read the text's own pooled vector h (before dense layers and head, [CLS]'s
    state in the paper) in place of the first token's state, and the states of F at the other tokens; a copy of the
    masked-LM head predicts::

        loss = mean over the hidden tokens t of -log softmax(head(A(h, F(x')_2 ... F(x')_l)_t))[x_t]

    The gradient reaches the encoder through h alone; A and the head are trained, and dropped at the end. So the vector
    has to hold what the lower layers miss. In the paper A and the encoder start from a model that was pretrained with
    such layers (Condenser); here A starts at random.

    `opencse.objective.losses.masked_lm` is the loss at each token as a function of tensors.

    Example:
        >>> from dataclasses import replace
        >>> reps = Representations.of(torch.eye(1), torch.eye(1))
        >>> sums = torch.tensor([[2.0, 4.0]])  # loss 2 over 4 hidden tokens
        >>> ConditionalMLM().loss(replace(reps, computed={"conditional_mlm": sums}))
        tensor(0.5000)
    """

    class Settings(PartSettings):
        """Settings of `ConditionalMLM`.

        Attributes:
            weight: of the term.
            rate: share of the tokens that are hidden.
            masking: what the hidden tokens become: by BERT's rule, or all [MASK].
            depth: how many of the start's first layers read the masked text; by default half of them.
            layers: how many new layers follow.
        """

        kind: Literal["conditional_mlm"] = "conditional_mlm"
        weight: float = Field(default=1e-5, gt=0, allow_inf_nan=False)
        rate: float = Field(default=0.4, gt=0, lt=1)
        masking: Masking = "bert"
        depth: int | None = Field(default=None, ge=0, le=256)
        layers: int = Field(default=2, ge=1, le=256)

    settings: Settings
    compares_examples = False

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.reader: _VectorReader | None = None
        self._copy = MaskedViews(self.settings.rate, self.settings.masking, f"{self.kind} term")

    @property
    def reads(self) -> Set[Request[Any]]:
        """The views' vectors before the head, a masked copy of their texts, and the masked-LM head."""
        return {Sentences(), Pooled(), self._copy, LmHead(instead="leave out the conditional_mlm term")}

    @property
    def networks(self) -> Sequence[nn.Module]:
        """The new layers and the head, with the frozen layers below."""
        return () if self.reader is None else (self.reader,)

    def check(self, context: Context) -> None:
        """Refuses an encoder with fewer layers than are read."""
        context.require_layers(f"the {self.kind} term needs some that read a text")
        encoder, depth = context.encoder, self.settings.depth
        if encoder is not None and depth is not None and encoder.depth < depth:
            raise UserError(
                f"{context.model}: has {encoder.depth} layers, fewer than the {depth} that read the masked text; leave "
                f"objective.terms.{self.kind}.depth out"
            )

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Copies the frozen layers and the head, and makes the new layers."""
        del batch_size
        settings = self.settings
        depth = encoder.depth // 2 if settings.depth is None else settings.depth
        self.reader = _VectorReader(encoder, depth, settings.layers, seed_of(seed, self.name))

    def compute(self, inputs: StepInputs, reps: Representations) -> Tensor:
        """(rows, 2) for each of the views' texts: the sum of the losses of its hidden tokens, and how many they are."""
        assert self.reader is not None
        reader, copied = self.reader, reps[self._copy]
        seen, positions = copied.masked.tokens, copied.masked.positions
        starts = torch.cat([torch.zeros(1, dtype=torch.int64), positions.sum(dim=1).cumsum(0)]).tolist()
        vectors = reps[Pooled()]

        def predict(start: int, stop: int, vectors: Tensor) -> Tensor:
            states = reader(seen.rows(start, stop), vectors)
            row, column = (moved(one, states.device) for one in positions[start:stop].nonzero(as_tuple=True))
            losses = masked_lm(reader.head(states[row, column]), copied.labels[starts[start] : starts[stop]])
            columns = torch.stack([losses, torch.ones_like(losses)], dim=1)
            return sums_by_row(columns, row, column, states.shape[:2])

        return through(reader, predict, vectors, inputs.chunks)

    def loss(self, reps: Representations) -> Tensor:
        """Mean cross-entropy over the hidden tokens; 0 where none is hidden."""
        sums: Tensor = reps.computed[self.name]
        return sums[:, _LOSS].sum() / sums[:, _COUNTED].sum().clamp(min=1)
