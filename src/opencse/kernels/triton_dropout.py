"""Dropout inside Triton's kernels: a mask is a function of a seed on the device, so it is never written down."""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor


class SeededDropout(NamedTuple):
    """Dropout at one place of a layer, in one forward.

    Attributes:
        rate: share that is dropped; 0 draws nothing.
        seeds: (slots,) int64 on the device, drawn again for each forward; None where nothing is dropped.
        slot: which of the seeds is this place's.
    """

    rate: float
    seeds: Tensor | None
    slot: int


@triton.jit
def _mixed_bits(h: tl.tensor) -> tl.tensor:
    """The last step of MurmurHash3, in which every bit of the result depends on every bit of ``h``."""
    h = (h ^ (h >> 16)) * 0x85EBCA6B
    h = (h ^ (h >> 13)) * 0xC2B2AE35
    return h ^ (h >> 16)


@triton.jit
def survives(seeds: tl.tensor, slot: tl.tensor, cells: tl.tensor, RATE: tl.constexpr) -> tl.tensor:
    """Whether dropout keeps each of ``cells``: a function of the seed and the cell's number.

    Both halves of the seed enter, and bits are mixed after each: some 16 operations, where Triton's own generator
    (Philox) takes a hundred.
    """
    seed = tl.load(seeds + slot)
    h = cells.to(tl.uint32) * 0x9E3779B1 + (seed & 0xFFFFFFFF).to(tl.uint32)
    h = _mixed_bits(h) ^ (seed >> 32).to(tl.uint32)
    threshold: tl.constexpr = int(RATE * 4294967296)
    return _mixed_bits(h) >= threshold
