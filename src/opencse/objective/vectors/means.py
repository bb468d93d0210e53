"""Means over dropout draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from opencse.errors import UserError
from opencse.objective.part import Context
from opencse.objective.vectors.request import Forward, Made, Request


@dataclass(frozen=True)
class Means(Request[Tensor]):
    """(2, N, d): means of ``samples`` (K) further dropout draws of each anchor and of each positive.

    Where the view makes the positives of the anchors' vectors, both are the anchors'.
    """

    samples: int

    def check(self, context: Context) -> None:
        """The draws need one forward with masks of their own."""
        objective = context.objective
        for there, name in ((objective.dual_encoder, "dual_encoder"), (objective.view.shared_mask, "view.shared_mask")):
            if there:
                raise UserError(
                    f"means over dropout draws do not go with objective.{name}; set it to false, or choose another "
                    "kind than mean for the vectors of the similarity"
                )

    def ask(self, forward: Forward) -> Callable[[Made], Tensor]:
        """The views' rows, K times more."""
        place = forward.again(self.samples)

        def mean(made: Made) -> Tensor:
            drawn = made.sentences[place]  # (K * views * N, d): draw by draw, in each the anchors, then the positives
            n = made.inputs.examples
            means = drawn.reshape(self.samples, -1, n, drawn.shape[1]).mean(dim=0)  # (views, N, d), views 2 or 1
            return means.expand(2, n, -1)

        return mean
