"""Reads, restores and seeds the random generator that dropout draws from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


def random_state(device: torch.device) -> Tensor:
    """The state of the generator that dropout draws from on ``device``: a GPU's, Apple's (mps) or the processor's."""
    if device.type == "cuda":
        return torch.cuda.get_rng_state(device)
    return torch.mps.get_rng_state() if device.type == "mps" else torch.get_rng_state()


def restore(state: Tensor, device: torch.device) -> None:
    """The inverse of `random_state`."""
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    elif device.type == "mps":
        torch.mps.set_rng_state(state)
    else:
        torch.set_rng_state(state)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seeds dropout with ``seed`` within the block; afterwards the generator continues where it was."""
    before = random_state(device)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        restore(before, device)
