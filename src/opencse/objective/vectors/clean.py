"""Vectors without dropout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from opencse.objective.vectors.request import Forward, Made, Request


@dataclass(frozen=True)
class Clean(Request[Tensor]):
    """(N, d): the anchors' texts without any dropout, with gradient.

    Dropout is a switch of the whole forward, so this one is a forward of its own; an encoder without dropout needs
    none.
    """

    def ask(self, forward: Forward) -> Callable[[Made], Tensor]:
        """A forward of the anchors, after the one of all rows."""
        del forward
        return _clean


def _clean(made: Made) -> Tensor:
    if not made.encoder.has_dropout:
        return made.sentences[: made.inputs.examples]
    with made.encoder.without_dropout():
        return made.encode(made.inputs.anchors)
