"""Dense layers on top of the pooled vector."""

from __future__ import annotations

from typing import Literal

import torch
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
        kind: ``none``, or ``mlp``: Linear(H, H) + Tanh, newly initialised (normal, sd 0.02; zero bias),
            the shape of BERT's pooler but not its weights (SimCSE, section 6.3).
        keep: whether it stays in the saved encoder (supervised SimCSE) or is used in training only
            (unsupervised SimCSE, "MLP (train)" of Table 6).
    """

    kind: Literal["none", "mlp"] = "none"
    keep: bool = False


class Dense(nn.Module):
    """Linear layer and activation: (rows, in) -> (rows, out). sentence-transformers' ``Dense`` module on disk."""

    def __init__(self, in_features: int, out_features: int, activation: str = "tanh", *, bias: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, bias=bias)
        self.activation_name = activation
        self.activation = ACTIVATIONS[activation]()

    @classmethod
    def mlp_head(cls, size: int, generator: torch.Generator) -> Dense:
        """A new MLP head of SimCSE's shape, initialised from ``generator``."""
        head = cls(size, size)
        with torch.no_grad():
            head.linear.weight.normal_(0.0, 0.02, generator=generator)
            head.linear.bias.zero_()
        return head

    def forward(self, vectors: Tensor) -> Tensor:
        """Activation(W x + b)."""
        output: Tensor = self.activation(self.linear(vectors))
        return output
