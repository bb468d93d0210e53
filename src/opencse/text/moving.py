"""From the processor's memory to a device's."""

from __future__ import annotations

import torch
from torch import Tensor


def moved(tensor: Tensor, device: torch.device) -> Tensor:
    """``tensor`` on ``device``, without waiting for what the device still has to do.

    A GPU copies beside its work only from memory that cannot be paged out; from any other, all work before it is
    finished first.
    """
    if device.type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
