"""Exchanges tensors and values among the processes of a run that ``torchrun`` or ``accelerate launch`` started."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from opencse.errors import UserError, reason

if TYPE_CHECKING:
    import torch
    from torch import Tensor

T = TypeVar("T")
STEP_LIMIT = timedelta(minutes=30)
"""How long a process waits for the others within a step; the end of one of them is noticed at once."""
WAIT_LIMIT = timedelta(hours=24)
"""How long the others wait while the first one evaluates or writes."""
_BUCKET = 25_000_000


@dataclass(frozen=True)
class Processes:
    """This process among the processes of a run; alone by default.

    Attributes:
        rank: number of this process, from 0; the first one evaluates, writes and reports.
        count: number of all processes.
        local: number of this process on its machine; see `gpu_of`.
        on_machine: number of processes on its machine.
    """

    rank: int = 0
    count: int = 1
    local: int = 0
    on_machine: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the process that evaluates, writes and reports."""
        return self.rank == 0

    @property
    def several(self) -> bool:
        """Whether there are others."""
        return self.count > 1

    def gathered(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        """(sum of ``counts``, ...): the rows of all processes in the order of their ranks, without gradient.

        Args:
            rows: of this process, (``counts[rank]``, ...), of one type and width in all processes.
            counts: rows of each process.
        """
        if not self.several:
            return rows
        import torch

        most = max(counts)
        padded = rows.new_zeros(most, *rows.shape[1:])
        padded[: len(rows)] = rows
        padded = padded.to(_exchange_device(rows))
        parts = [torch.empty_like(padded) for _ in counts]
        self._together(lambda dist: dist.all_gather(parts, padded))
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)]).to(rows.device)

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replaces each of ``tensors`` by its sum over all processes, in a few large messages.

        The result is the same, bit for bit, in every process.
        """
        if not self.several:
            return
        import torch

        for bucket in _buckets(tensors):
            flat = torch.cat([tensor.reshape(-1) for tensor in bucket]).to(_exchange_device(bucket[0]))
            self._together(partial(_add_up, flat))
            at = 0
            for tensor in bucket:
                tensor.copy_(flat[at : at + tensor.numel()].view_as(tensor))
                at += tensor.numel()

    def any_of(self, flags: Sequence[bool]) -> list[bool]:
        """For each flag, whether it is set in any process."""
        if not self.several:
            return list(flags)
        import torch

        any_set = torch.tensor(list(flags), dtype=torch.uint8)
        self._together(lambda dist: dist.all_reduce(any_set, op=dist.ReduceOp.MAX, group=_waiting()))
        return [bool(flag) for flag in any_set.tolist()]

    def share(self, value: T | None = None) -> T:
        """Sends the first process's ``value`` to all processes, which wait for it."""
        held: list[Any] = [value]
        if self.several:
            self._together(lambda dist: dist.broadcast_object_list(held, src=0, group=_waiting()))
        shared: T = held[0]
        return shared

    def wait(self) -> None:
        """Waits until all processes have called this."""
        self.share(None)
        self.any_of([False])

    @contextmanager
    def first_alone(self) -> Iterator[None]:
        """Runs the block in the first process, then in the others, which find its results in a cache."""
        if not self.first:
            self.wait()
        yield
        if self.first:
            self.wait()

    def _together(self, exchange: Callable[[Any], object]) -> None:
        import torch.distributed as dist

        try:
            exchange(dist)
        except (RuntimeError, ValueError) as error:
            raise UserError(
                f"process {self.rank} of {self.count} lost the others ({_short(error)}): one of them has ended, and "
                "says why, or hangs; continue with --resume from the last checkpoint"
            ) from None


ALONE = Processes()


def _exchange_device(tensor: Tensor) -> torch.device:
    """Where ``tensor`` is exchanged: where it is, or on the CPU if processes share a GPU, which NCCL refuses."""
    import torch
    import torch.distributed as dist

    return tensor.device if dist.get_backend() == "nccl" else torch.device("cpu")


def gpu_of(process: Processes) -> int:
    """The number of the process's GPU on its machine; processes share them if there are more."""
    import torch

    return process.local % max(1, torch.cuda.device_count())


def started() -> Processes:
    """This process, by the variables that ``torchrun`` sets (WORLD_SIZE, RANK, LOCAL_RANK); no other is contacted."""
    variables = {name: os.environ.get(name, default) for name, default in _VARIABLES.items()}
    variables["LOCAL_WORLD_SIZE"] = os.environ.get("LOCAL_WORLD_SIZE", variables["WORLD_SIZE"])
    count, rank, local, on_machine = (int(value) for value in variables.values())
    return Processes(rank, count, local, on_machine)


_VARIABLES = {"WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0"}
_waiting_groups: list[Any] = []


def _waiting() -> Any:  # noqa: ANN401 - a process group, which torch gives no type
    """The group of processes on the CPU that wait for the first one."""
    return _waiting_groups[-1]


@contextmanager
def joined(device: str) -> Iterator[Processes]:
    """Connects the processes of this run within the block.

    Args:
        device: ``cuda`` exchanges tensors by NCCL if each process has a GPU of its own, anything else by Gloo.

    Raises:
        UserError: if the others cannot be reached.
    """
    this = started()
    if not this.several:
        yield this
        return
    import torch
    import torch.distributed as dist

    gpu = device.startswith("cuda")
    if gpu:
        torch.cuda.set_device(gpu_of(this))
        gpu = this.on_machine <= torch.cuda.device_count()
    ours = not dist.is_initialized()
    try:
        if ours:
            dist.init_process_group("nccl" if gpu else "gloo", timeout=STEP_LIMIT)
        _waiting_groups.append(dist.new_group(backend="gloo", timeout=WAIT_LIMIT))
    except (RuntimeError, ValueError) as error:
        raise UserError(
            f"process {this.rank} of {this.count} cannot reach the others ({_short(error)}); start them with "
            "torchrun --nproc-per-node N, and on several machines with --nnodes, --node-rank and --master-addr"
        ) from None
    try:
        yield this
    finally:
        _waiting_groups.pop()
        if ours:
            dist.destroy_process_group()


def _short(error: BaseException) -> str:
    """The message of ``error``, without the position in torch's code and the advice."""
    return re.sub(r"^\[[^\]]*\] *", "", reason(error)).split(". ")[0][:200]


def _add_up(flat: Tensor, dist: Any) -> None:  # noqa: ANN401 - torch's module
    dist.all_reduce(flat)


def _buckets(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """``tensors`` in groups of one type and a bounded number of values."""
    held: list[Tensor] = []
    for tensor in tensors:
        full = sum(one.numel() for one in held) + tensor.numel() > _BUCKET
        if held and (full or tensor.dtype != held[0].dtype or tensor.device != held[0].device):
            yield held
            held = []
        held.append(tensor)
    if held:
        yield held
