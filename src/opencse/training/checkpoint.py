"""Everything a run needs to go on as if it had never stopped."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from opencse.errors import UserError


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint: tensors by name, and plain values.

    Tensors are named by owner: ``encoder.``, ``objective.``, ``optimizer.``, ``best.`` (the best encoder so far)
    and ``random.`` (generator states).
    """

    tensors: dict[str, Tensor]
    values: dict[str, Any]

    def of(self, owner: str) -> dict[str, Tensor]:
        """The tensors of one owner, its prefix taken off."""
        prefix = f"{owner}."
        return {name.removeprefix(prefix): t for name, t in self.tensors.items() if name.startswith(prefix)}


def prefixed(owner: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Names with their owner's prefix; copies, because safetensors refuses tensors that share memory."""
    return {f"{owner}.{name}": t.detach().cpu().clone().contiguous() for name, t in tensors.items()}


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes beside the old checkpoint and swaps, so that one whole checkpoint is there at any moment.

    Raises:
        UserError: if it cannot be written (a full disk); the older checkpoint stays.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    new, old = folder.with_name(f"{folder.name}.new"), folder.with_name(f"{folder.name}.old")
    try:
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        save_file(checkpoint.tensors, new / "tensors.safetensors")
        (new / "state.json").write_text(json.dumps(checkpoint.values))
        for path in new.iterdir():
            with path.open("rb") as stream:
                os.fsync(stream.fileno())
        shutil.rmtree(old, ignore_errors=True)
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(new, ignore_errors=True)
        raise UserError(
            f"{folder}: the checkpoint cannot be written ({error}); make room and go on with --resume"
        ) from None


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """The checkpoint of ``folder``, or None if no step was ever saved."""
    from safetensors.torch import load_file

    for candidate in (folder, folder.with_name(f"{folder.name}.old")):
        if (candidate / "state.json").is_file():
            values = json.loads((candidate / "state.json").read_text())
            return Checkpoint(load_file(candidate / "tensors.safetensors"), values)
    return None


def remove_checkpoint(folder: Path) -> None:
    """Removes a checkpoint that is no longer needed."""
    for name in (folder.name, f"{folder.name}.new", f"{folder.name}.old"):
        shutil.rmtree(folder.with_name(name), ignore_errors=True)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's state as flat names: ``<parameter number>.<entry>``."""
    state = optimizer.state_dict()["state"]
    return {f"{number}.{entry}": value for number, entries in state.items() for entry, value in entries.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """The inverse of `optimizer_tensors`."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        number, entry = name.split(".", 1)
        state.setdefault(int(number), {})[entry] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def random_states() -> dict[str, Tensor]:
    """The states of torch's own generators, from which dropout draws."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def restore_random_states(states: Mapping[str, Tensor]) -> None:
    """The inverse of `random_states`."""
    torch.set_rng_state(states["cpu"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
