"""Checkpoints: everything a run needs to continue as if it had never stopped."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from opencse import files
from opencse.errors import UserError, explaining, reason
from opencse.files import folder_versions, replace_folder, settle_folder
from opencse.objective.vectors.chunks import random_state, restore
from opencse.progress import SILENT, Say
from opencse.training.optimizer import trained_weights

CHECKPOINT = "checkpoint"
_TENSORS, _STATE, _SUMS = "tensors.safetensors", "state.json", "checksums.json"
_CONTENT = (_TENSORS, _STATE)
_TRIES = 3


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run after a step: tensors by name, and plain values.

    Tensors are named by owner: ``encoder.``, ``objective.``, ``optimizer.``, ``best.`` (the best encoder so far)
    and ``random.`` (generator states).
    """

    tensors: dict[str, Tensor]
    values: dict[str, Any]

    def of(self, owner: str) -> dict[str, Tensor]:
        """The tensors of one owner, without its prefix."""
        prefix = f"{owner}."
        return {name.removeprefix(prefix): t for name, t in self.tensors.items() if name.startswith(prefix)}


def prefixed(owner: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Puts the owner's prefix before the names, and copies: safetensors refuses tensors that share memory."""
    return {f"{owner}.{name}": t.detach().cpu().clone().contiguous() for name, t in tensors.items()}


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes a checkpoint next to the old one, then replaces that: a kill at any time leaves a complete one.

    Raises:
        UserError: if it cannot be written (a full disk); the older checkpoint stays.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    new, _, _ = folder_versions(folder)
    try:
        settle_folder(folder, _is_whole)
        new.mkdir(parents=True)
        save_file(checkpoint.tensors, new / _TENSORS)
        (new / _STATE).write_text(json.dumps(checkpoint.values), encoding="utf-8")
        for name in _CONTENT:
            files.sync(new / name)
        # Last: only a complete folder has checksums.
        files.write_json(new / _SUMS, {name: files.hash_file(new / name) for name in _CONTENT})
        replace_folder(folder)
    except (OSError, SafetensorError) as error:
        if not (new / _SUMS).is_file():  # incomplete
            shutil.rmtree(new, ignore_errors=True)
        raise UserError(
            f"{folder}: the checkpoint cannot be written ({reason(error)}); make room and continue with --resume"
        ) from None


def load_checkpoint(folder: Path, say: Say = SILENT.say) -> Checkpoint | None:
    """Reads the newest complete checkpoint, or None if no step was ever saved. Nothing is changed on the disk.

    Args:
        folder: of the checkpoint; after a kill the newest, or the one before it, may be next to it.
        say: is called with a warning if a damaged checkpoint is skipped for an older one.

    Raises:
        UserError: if there are checkpoints and all are damaged, with the file of the newest.
    """
    for _ in range(_TRIES - 1):  # a run in progress may replace its checkpoints meanwhile
        checkpoint, damage = _newest(folder)
        if not damage:
            return checkpoint
        time.sleep(0.05)
    checkpoint, damage = _newest(folder)
    if damage and checkpoint is None:
        raise UserError(
            f"{damage[0]}; put back a copy of it, or remove {folder.name}* in {folder.parent}, and --resume begins "
            "again at step 0"
        )
    if damage:
        say(f"warning    {damage[0]}; the checkpoint before it is complete and is used instead")
    return checkpoint


def _newest(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest complete checkpoint, and what is wrong with newer ones, unless they were never finished."""
    damage: list[str] = []
    new, _, _ = folder_versions(folder)
    for candidate in folder_versions(folder):
        if not candidate.exists() or (candidate == new and not (candidate / _SUMS).is_file()):
            continue
        try:
            return _read(candidate), damage
        except UserError as error:
            damage.append(str(error))
    return None, damage


def _is_whole(folder: Path) -> bool:
    try:
        _verify(folder)
    except UserError:
        return False
    return True


def _verify(folder: Path) -> None:
    with explaining(f"{folder / _SUMS}: cannot be read", OSError, ValueError):
        sums = json.loads((folder / _SUMS).read_text(encoding="utf-8"))
        if not isinstance(sums, dict):
            raise ValueError(f"a {type(sums).__name__} where an object was expected")
    for name in _CONTENT:
        with explaining(f"{folder / name}: cannot be read", OSError):
            same = files.hash_file(folder / name) == sums.get(name)
        if not same:
            raise UserError(f"{folder / name}: is damaged (its content is not what was written)")


def _read(folder: Path) -> Checkpoint:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    _verify(folder)
    with explaining(f"{folder}: cannot be read", OSError, ValueError, SafetensorError):
        values = json.loads((folder / _STATE).read_text(encoding="utf-8"))
        return Checkpoint(load_file(folder / _TENSORS), values)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's state by flat names: ``<parameter number>.<entry>``."""
    state = optimizer.state_dict()["state"]
    return {f"{number}.{entry}": value for number, entries in state.items() for entry, value in entries.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """The inverse of `optimizer_tensors`.

    Raises:
        ValueError, IndexError: for tensors that are not the state of these parameters.
    """
    weights = trained_weights(optimizer)
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        number, entry = name.split(".", 1)
        state.setdefault(int(number), {})[entry] = tensor
        if tensor.dim() and tensor.shape != weights[int(number)].shape:
            raise ValueError(f"optimizer.{name} is {tuple(tensor.shape)}, its weight another shape")
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def random_states(device: torch.device) -> dict[str, Tensor]:
    """The states of the generators that dropout draws from: the CPU's and that of the run's device."""
    states = {"cpu": torch.get_rng_state()}
    if device.type != "cpu":
        states[device.type] = random_state(device)
    return states


def restore_random_states(states: Mapping[str, Tensor], device: torch.device) -> None:
    """The inverse of `random_states`."""
    torch.set_rng_state(states["cpu"])
    if device.type != "cpu" and device.type in states:
        restore(states[device.type], device)
