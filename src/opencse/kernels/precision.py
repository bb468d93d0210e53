"""Chooses the arithmetic of the forward pass: float32 or bf16."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

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
        return Precision(major >= 8, f"auto: CUDA compute capability {major}.{minor}")
    if device.type == "cpu":
        from opencse.kernels.processor import fast_bf16

        fast, reason = fast_bf16()
        return Precision(fast, f"auto: {reason}")
    return Precision(False, f"auto: float32 on {device.type}")
