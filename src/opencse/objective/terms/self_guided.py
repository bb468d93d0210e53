"""The layers of a frozen copy of the start as positives of the trained vector, as a loss (SG-OPT)."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.modules.pooling import Pooling
from opencse.objective.columns import same_text
from opencse.objective.context import Context
from opencse.objective.losses.self_guided import self_guided
from opencse.objective.losses.similarity import at_least_float32
from opencse.objective.terms.base import Term
from opencse.objective.vectors.step import Representations, StepInputs
from opencse.settings import PartSettings
from opencse.streams import seed_of


class SelfGuided(Term):
    """Self-guided contrast (SG-OPT): a frozen copy of the start gives the anchor's positives at each of its layers.

    The copy's token vectors are pooled at every layer, the output of the embeddings among them. The anchor's vector and
    the pooled ones go through a projection of two linear layers with a GELU after each, which is trained with the
    encoder and dropped at the end. The anchor is pulled to each layer's vector of its own text, against all layers'
    vectors of the other texts: `opencse.objective.losses.self_guided`. The paper adds a distance to the start, the term
    ``near_start``.

    The copy has no dropout; in the authors' code training mode reaches it too, so its dropout is on there. Equal
    texts are each other's negatives there (``mask_duplicates = false``).

    Example:
        >>> from dataclasses import replace
        >>> reps = Representations.of(torch.eye(2), torch.eye(2))
        >>> layers = torch.stack([torch.eye(2), torch.eye(2)])
        >>> term = SelfGuided(SelfGuided.Settings(temperature=1.0))
        >>> term.loss(replace(reps, computed={"self_guided": layers}))  # before `begin` there is no projection
        tensor(0.5514)
    """

    class Settings(PartSettings):
        """Settings of `SelfGuided`.

        Attributes:
            weight: of the term.
            temperature: tau.
            pooling: of the copy's layers.
            size: dimensions of the projection; 0 for none.
            dropout: whether the copy's dropout is on.
            mask_duplicates: whether equal texts are not each other's negatives.
        """

        kind: Literal["self_guided"] = "self_guided"
        weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
        temperature: float = Field(default=0.01, gt=0, allow_inf_nan=False)
        pooling: Pooling = Pooling.MEAN
        size: int = Field(default=4096, ge=0, le=1_048_576)
        dropout: bool = False
        mask_duplicates: bool = True

    settings: Settings

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.start: SentenceEncoder | None = None
        self.projection: nn.Module = nn.Identity()

    def check(self, context: Context) -> None:
        """Refuses an encoder without layers, vectors of another size, and pooling that joins layers."""
        if len(self.settings.pooling.layers(2)) > 1:
            raise UserError(
                f"the {self.kind} term pools layers one by one, and pooling {self.settings.pooling} averages several; "
                f"set objective.terms.{self.kind}.pooling=mean"
            )
        context.require_layers(f"the {self.kind} term compares vectors with those of its layers")
        context.require_token_size(f"the {self.kind} term compares sentence vectors with those of the layers")

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Copies the encoder, and makes the projection."""
        del batch_size
        start = encoder.twin()
        start.lm_head, start.projection, start.dense = None, None, nn.Sequential()
        start.pooling, start.token_weights = self.settings.pooling, None
        self.start = start.requires_grad_(False).eval()
        if self.settings.size:
            config = encoder.backbone.config
            sd = float(getattr(config, "initializer_range", 0.02))
            generator = torch.Generator().manual_seed(seed_of(seed, self.name))
            layers = nn.Linear(encoder.training_dimension, self.settings.size), nn.Linear(*2 * (self.settings.size,))
            with torch.no_grad():
                for layer in layers:
                    layer.weight.normal_(0.0, sd, generator=generator)
                    layer.bias.zero_()
            self.projection = nn.Sequential(layers[0], nn.GELU(), layers[1], nn.GELU()).to(encoder.device)

    @torch.no_grad()
    def compute(self, inputs: StepInputs, reps: Representations) -> Tensor:
        """(L + 1, N, hidden): the copy's vectors of the anchors at each layer, the embeddings' first."""
        del reps
        assert self.start is not None
        self.start.train(self.settings.dropout)
        layers = range(self.start.depth + 1)
        encoded = inputs.chunks.encode(self.start, inputs.anchors, layers=layers)
        return torch.stack([at_least_float32(encoded.layers[layer]) for layer in layers])

    def loss(self, reps: Representations) -> Tensor:
        """`losses.self_guided` of the projected vectors."""
        settings = self.settings
        anchor, layers = at_least_float32(reps.anchor), reps.computed[self.name]
        keys = reps.keys[:, :1]
        left_out = same_text(keys, keys) if settings.mask_duplicates else None
        return self_guided(
            self.projection(anchor), self.projection(layers), temperature=settings.temperature, left_out=left_out
        )
