"""Where each process of a run computes."""

from __future__ import annotations

import torch

from opencse.encoder.devices import default_device, usable
from opencse.errors import UserError
from opencse.processes import started
from opencse.progress import Progress


def own_device(asked: str | None) -> str | None:
    """Where this process runs: among several on a machine of GPUs, each has its own.

    Raises:
        UserError: for one numbered GPU, which several processes cannot share.
    """
    own = started()
    if not own.several:
        return asked
    if asked is not None and asked.startswith("cuda:"):
        raise UserError(f"--device {asked}: {own.count} processes take a GPU each; say --device cuda, or leave it out")
    kind = str(default_device()) if asked is None else asked
    return str(usable(f"cuda:{own.local}")) if kind == "cuda" else kind


def tell_of_others(device: torch.device, tell: Progress) -> None:
    """Says how to use the GPUs that a plain start leaves idle."""
    count = torch.cuda.device_count() if device.type == "cuda" else 1
    if count > 1:
        tell.say(
            f"GPUs       {count} here, one is used; for all of them: torchrun --nproc-per-node {count} "
            "--no-python opencse train ... (docs/scale.md)"
        )
