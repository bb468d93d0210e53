"""Dense layers on top of the pooled vector."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from opencse.settings import Settings

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "tanh": nn.Tanh,
    "identity": nn.Identity,
    "relu": nn.ReLU,
    "gelu": nn.GELU,
}


class HeadSettings(Settings):
    """The projection head of training.

    Attributes:
        kind: ``none``; ``mlp``: Linear(H, size) + Tanh, newly initialised (normal, sd 0.02; zero bias), the shape of
            BERT's pooler but not its weights (SimCSE, section 6.3); or ``linear``: Linear(H, size) alone, for
            vectors of fewer dimensions (SSCL, Table 5), see `Dense.linear_head`.
        size: numbers in the vectors that the head makes; unset keeps the encoder's own (``mlp`` only).
        keep: whether it stays in the saved encoder (supervised SimCSE, and SSCL's, whose smaller vectors are the
            result) or is used in training only (unsupervised SimCSE, "MLP (train)" of Table 6).
    """

    kind: Literal["none", "mlp", "linear"] = "none"
    size: int | None = Field(default=None, ge=1, le=65_536)
    keep: bool = False

    @model_validator(mode="after")
    def _size_where_it_means_something(self) -> HeadSettings:
        if self.kind == "linear" and self.size is None:
            raise ValueError('a linear head needs a size, for instance head = { kind = "linear", size = 256 }')
        if self.kind == "none" and self.size is not None:
            raise ValueError("a size goes with a head; set kind to linear or mlp")
        return self


class Dense(nn.Module):
    """Linear layer and activation: (rows, in) -> (rows, out). sentence-transformers' ``Dense`` module on disk."""

    def __init__(self, in_features: int, out_features: int, activation: str = "tanh", *, bias: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, bias=bias)
        self.activation_name = activation
        self.activation = ACTIVATIONS[activation]()

    @classmethod
    def mlp_head(cls, features: int, generator: torch.Generator, size: int | None = None) -> Dense:
        """A new MLP head of SimCSE's shape, initialised from ``generator``; ``size`` is ``features`` if not given."""
        head = cls(features, features if size is None else size)
        with torch.no_grad():
            head.linear.weight.normal_(0.0, 0.02, generator=generator)
            head.linear.bias.zero_()
        return head

    @classmethod
    def linear_head(cls, features: int, generator: torch.Generator, size: int) -> Dense:
        """A new linear head: W x + b with orthonormal rows (columns, if ``size`` is above ``features``) and b = 0.

        It starts as a projection on a random subspace, which keeps what a linear map to ``size`` dimensions can keep
        without having seen data: no direction of the subspace is stretched, and cosines change at random alone. The
        authors of SSCL do not say how theirs starts.
        """
        head = cls(features, size, "identity")
        with torch.no_grad():
            nn.init.orthogonal_(head.linear.weight, generator=generator)
            head.linear.bias.zero_()
        return head

    def forward(self, vectors: Tensor) -> Tensor:
        """Activation(W x + b)."""
        output: Tensor = self.activation(self.linear(vectors))
        return output


def new_head(settings: HeadSettings, features: int, generator: torch.Generator) -> Dense | None:
    """The head that ``settings`` describe, for vectors of ``features`` numbers; None for ``none``."""
    if settings.kind == "none":
        return None
    if settings.kind == "mlp":
        return Dense.mlp_head(features, generator, settings.size)
    if settings.size is None:
        raise ValueError("a linear head needs a size")
    return Dense.linear_head(features, generator, settings.size)
