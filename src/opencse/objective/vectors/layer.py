"""Sentence vectors of intermediate layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from opencse.errors import UserError
from opencse.modules.dense import Projection
from opencse.objective.part import Context
from opencse.objective.vectors.request import Forward, Made, Request


@dataclass(frozen=True)
class Layer(Request[Tensor]):
    """(2N, d): the anchors', then the positives' vectors at layer ``number``, pooled and projected like the last one's.

    0 is the output of the embeddings, -1 the last layer, -2 the one before it. (N, d) where the view makes the
    positives of the anchors' vectors.
    """

    number: int

    def check(self, context: Context) -> None:
        """A head that is kept learns its running means from the last layer's vectors alone."""
        if context.encoder is not None and any(isinstance(layer, Projection) for layer in context.encoder.dense):
            raise UserError(
                "vectors of intermediate layers would change the running means of the projection head that is kept; "
                "set encoder.head.keep=false, or encoder.head.kind=mlp"
            )

    def ask(self, forward: Forward) -> Callable[[Made], Tensor]:
        """The layer's states are there in any forward; they are pooled too."""
        forward.layers.add(self.number)
        return lambda made: made.encoded.layers[self.number][: made.views]
