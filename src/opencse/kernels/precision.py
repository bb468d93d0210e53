"""Chooses the arithmetic of the forward pass, float32 or bf16, by what the processor is."""

from __future__ import annotations

import platform
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch


INTEL = "GenuineIntel"


def maker() -> str:
    """The processor's maker as Linux reports it; elsewhere Intel's name for itself, if the processor's name has it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return INTEL if "intel" in platform.processor().lower() else ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("vendor_id")), "")


def fast_bf16() -> tuple[bool, str]:
    """Whether this CPU computes products faster in bf16 than in float32, and why.

    AMX does, and AVX-512's bf16 instruction on other makers' processors: twice as fast and more. On Intel's without AMX
    (some virtual machines hide it) that instruction takes twice as long as float32's (docs/results/speed.md).
    """
    import torch

    capabilities = torch.cpu.get_capabilities()
    if capabilities.get("amx_bf16"):
        return True, "this CPU has amx_bf16"
    if not capabilities.get("avx512_bf16"):
        return False, "this CPU has no bf16 unit"
    if maker() == INTEL:
        return False, "this CPU has avx512_bf16 without AMX, which is slower than float32 on Intel's"
    return True, "this CPU has avx512_bf16"


PrecisionName = Literal["float32", "bf16"]
"""Names of the arithmetic of a forward pass."""


@dataclass(frozen=True)
class Precision:
    """The arithmetic of the forward pass; weights, loss and optimizer stay float32.

    Attributes:
        bf16: whether the forward runs under bf16 autocast.
        reason: why it was chosen, for the user.
    """

    bf16: bool
    reason: str

    @property
    def name(self) -> PrecisionName:
        """``bf16`` or ``float32``."""
        return "bf16" if self.bf16 else "float32"

    @property
    def line(self) -> str:
        """The choice and its reason in one line."""
        return f"precision  {self.name} ({self.reason})"

    def autocast(self, device: torch.device) -> AbstractContextManager[object]:
        """The context of the forward pass."""
        import torch

        return torch.autocast(device.type, torch.bfloat16) if self.bf16 else nullcontext()


def choose_precision(choice: Literal["auto", "float32", "bf16"], device: torch.device) -> Precision:
    """bf16 where it is fast: CUDA from compute capability 8.0, CPUs by `fast_bf16`."""
    if choice != "auto":
        return Precision(choice == "bf16", "requested")
    if device.type == "cuda":
        import torch

        major, minor = torch.cuda.get_device_capability(device)
        # Ampere (8.0) is the first with bf16 in its tensor cores.
        return Precision(major >= 8, f"auto: CUDA compute capability {major}.{minor}")
    if device.type == "cpu":
        fast, reason = fast_bf16()
        return Precision(fast, f"auto: {reason}")
    return Precision(False, f"auto: float32 on {device.type}")
