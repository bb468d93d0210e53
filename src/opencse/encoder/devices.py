"""Checks and chooses the device that an encoder runs on."""

from __future__ import annotations

import torch

from opencse.errors import UserError, reason, shortened


def usable_device(device: str | torch.device) -> torch.device:
    """The device, after a check that tensors can be created on it and read back.

    Raises:
        UserError: if not.
    """
    try:
        torch.zeros(1, device=device).item()  # `meta` makes tensors that nothing can be read of
    except (RuntimeError, AssertionError, ImportError, ValueError) as error:
        raise UserError(
            f"device {shortened(str(device))}: cannot be used here ({shortened(reason(error), 200)})"
        ) from None
    return torch.device(device)


def default_device() -> torch.device:
    """A CUDA GPU if there is one, else Apple's, else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")
