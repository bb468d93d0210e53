"""Which arithmetic a run uses, and why."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

import torch


@dataclass(frozen=True)
class Precision:
    """The arithmetic of the forward pass; weights, loss and optimizer stay float32.

    Attributes:
        bf16: whether the forward runs under bf16 autocast.
        reason: why, for the user.
    """

    bf16: bool
    reason: str

    @property
    def name(self) -> str:
        """``bf16`` or ``float32``."""
        return "bf16" if self.bf16 else "float32"

    def autocast(self, device: torch.device) -> AbstractContextManager[object]:
        """The context of the forward pass."""
        return torch.autocast(device.type, torch.bfloat16) if self.bf16 else nullcontext()


def choose_precision(asked: Literal["auto", "float32", "bf16"], device: torch.device) -> Precision:
    """bf16 where it is fast: CUDA from compute capability 8.0, CPUs with AVX512-BF16 or AMX-BF16."""
    if asked != "auto":
        return Precision(asked == "bf16", "asked for")
    if device.type == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        return Precision(major >= 8, f"auto: CUDA compute capability {major}.{minor}")
    if device.type == "cpu":
        found = [name for name in ("avx512_bf16", "amx_bf16") if torch.cpu.get_capabilities().get(name)]
        return Precision(bool(found), f"auto: this CPU has {found[0]}" if found else "auto: this CPU has no bf16 unit")
    return Precision(False, f"auto: float32 on {device.type}")
