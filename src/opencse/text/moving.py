"""Copies tensors to a GPU without waiting for it."""

from __future__ import annotations

import torch
from torch import Tensor


def moved(tensor: Tensor, device: torch.device) -> Tensor:
    """A copy of ``tensor`` on ``device``, made while the device does other work.

    A GPU copies in parallel to its other work only from pinned memory (which cannot be paged out); from other memory it
    first finishes all earlier work.
    """
    if device.type == "cuda" and tensor.device.type == "cpu":
        # a graph would read this memory again when it is gone
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            raise RuntimeError("a step that copies from the processor cannot be recorded")
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
