"""The weights of the encoder in training as something that parts can read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from opencse.kernels.outputs import Encoded
from opencse.objective.vectors.step import Forward, Request


@dataclass(frozen=True)
class SharedWeights:
    """The trained weights of the backbone.

    Attributes:
        weights: by their names in the backbone.
        processes: how many processes train together. Their gradients of these weights are added up, so a loss of the
            weights alone has to be divided by this number in the backward pass; see `once`.
    """

    weights: Mapping[str, Tensor]
    processes: int

    def once(self, loss: Tensor) -> Tensor:
        """The same loss, whose gradients of all processes add up to the gradient of one."""
        return loss if self.processes == 1 else loss.detach() + (loss - loss.detach()) / self.processes


@dataclass(frozen=True)
class BackboneWeights(Request[SharedWeights]):
    """The trained weights of the encoder's backbone, with gradient."""

    encodes: ClassVar[bool] = False

    def ask(self, forward: Forward) -> Callable[[Encoded], SharedWeights]:
        """Adds nothing to the forward pass."""
        trained = {name: p for name, p in forward.encoder.backbone.named_parameters() if p.requires_grad}
        processes = forward.inputs.chunks.world.count
        return lambda encoded: SharedWeights(trained, processes)
