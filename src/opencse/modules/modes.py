"""Switches a module to evaluation mode for a while."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(module: nn.Module, but: Iterable[nn.Module] = ()) -> Iterator[None]:
    """Evaluation mode within the block; after it every module is in the mode it had before.

    Args:
        module: with all its parts.
        but: parts that keep their mode.

    Example:
        >>> layer = nn.Dropout(0.5).train()
        >>> with evaluating(layer):
        ...     layer.training
        False
        >>> layer.training
        True
    """
    modes = [(part, part.training) for part in module.modules()]
    if not any(training for _, training in modes):
        yield
        return
    stay = [(part, part.training) for excluded in but for part in excluded.modules()]
    module.eval()
    for part, training in stay:
        part.training = training
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training
