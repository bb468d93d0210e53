"""Training and evaluation mode of a module's parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(module: nn.Module, but: Iterable[nn.Module] = ()) -> Iterator[None]:
    """Evaluation mode within the block; every module is put back into the mode it was in.

    Args:
        module: with all its parts.
        but: parts that stay in the mode they are in.
    """
    modes = [(part, part.training) for part in module.modules()]
    stay = [(part, part.training) for excluded in but for part in excluded.modules()]
    module.eval()
    for part, training in stay:
        part.training = training
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training
