"""Plans the steps: which data set each works on, how many texts are encoded together, and how long a step takes."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.kernels.precision import Precision
from opencse.objective.inputs import InputBuilder
from opencse.objective.objective import Objective
from opencse.objective.vectors.chunks import WHOLE, Chunks, seeded
from opencse.processes import Processes
from opencse.streams import Stream
from opencse.text.tokenizer import Tokens
from opencse.training.batches import Batches, BatchPlan, TokenBatchPlan
from opencse.training.optimizer import build_optimizer, set_rate, trained_weights
from opencse.training.settings import TrainingSettings
from opencse.training.step import Step, WorstCase, step_inputs

Mixing = Literal["proportional", "round_robin"]
FIRST = "text"
"""The name of the data set that the run is given first."""


@dataclass(frozen=True)
class DataSet:
    """One data set of a run: what its steps are made of.

    Attributes:
        name: for the user.
        objective: its own; the encoder is that of the run.
        inputs: builds the rows of its steps.
        batches: the examples of its steps, numbered by its own steps.
        near_duplicates: rows left out; None where they were not looked for.
    """

    name: str
    objective: Objective
    inputs: InputBuilder
    batches: Batches
    near_duplicates: int | None = None


class MixingPlan:
    """Plans the data set of each step, computed from the number of the step alone, so resuming needs no other state.

    ``proportional``: an epoch has each data set's steps as often as it has them, in an order drawn again every epoch.
    ``round_robin``: the data sets take turns, and an epoch ends when the one with the fewest steps is through.

    Example:
        >>> mixture = MixingPlan([2, 1], "round_robin", seed=1)
        >>> [mixture.at(step) for step in range(4)]
        [(0, 0), (1, 0), (0, 1), (1, 1)]
        >>> mixture = MixingPlan([2, 1], "proportional", seed=1)
        >>> sorted(mixture.at(step) for step in range(6))  # two epochs
        [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]

    Args:
        steps: of each data set in an epoch, at least 1.
        rule: ``proportional`` or ``round_robin``.
        seed: of the order, which has a random stream of its own.
    """

    def __init__(self, steps: Sequence[int], rule: Mixing, seed: int) -> None:
        self.rule = rule
        self.steps = tuple(steps) if rule == "proportional" else (min(steps),) * len(steps)
        self._seed = seed
        self._order = lru_cache(maxsize=1)(self._drawn)

    @property
    def steps_per_epoch(self) -> int:
        """Steps of all data sets in an epoch."""
        return sum(self.steps)

    def at(self, step: int) -> tuple[int, int]:
        """The number of the data set of ``step`` (from 0), and which of that data set's steps it is (from 0)."""
        if self.rule == "round_robin":
            its_step, number = divmod(step, len(self.steps))
            return number, its_step
        epoch, position = divmod(step, self.steps_per_epoch)
        order, before = self._order(epoch)
        number = int(order[position])
        return number, epoch * self.steps[number] + int(before[position])

    def _drawn(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The data set of each step of an epoch, and how many of its steps come before in this epoch."""
        order = np.repeat(np.arange(len(self.steps)), self.steps)
        order = np.random.default_rng([self._seed, Stream.MIXTURE, epoch]).permutation(order)
        before = np.zeros(len(order), dtype=np.int64)
        for number, count in enumerate(self.steps):
            before[order == number] = np.arange(count)
        return order, before


# Parameters of glibc's mallopt (malloc.h).
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4


def keep_freed_memory() -> bool:
    """Keeps freed memory in the process instead of returning it to the kernel at every step.

    A training step on the CPU frees and allocates the same large blocks again and again. By default glibc maps each of
    them again, and the kernel clears every page of it; memory that stays is reused at once (a step of 2 x 1,024
    sentences on a layerless encoder: 1.6 times as fast). The process keeps the largest memory it ever needed.

    Returns:
        Whether it worked: on Linux with glibc only.
    """
    if sys.platform != "linux":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # another C library
        return False
    # No block by mmap and none trimmed: what is freed stays in the heap.
    return bool(mallopt(_MMAP_MAX, 0)) and bool(mallopt(_TRIM_THRESHOLD, 2**31 - 1))


SHARE = 0.5
"""The share of the free memory that the graph may take."""
_PROBED = 8
_GROUP = Path("/sys/fs/cgroup")
_MOST = {"cpu": 256, "cuda": 4_096}
"""Texts beyond which a larger chunk is hardly faster."""


def choose_chunks(
    chunk: int | Literal["auto"] | None,
    encoder: SentenceEncoder,
    inputs: InputBuilder,
    batch_size: int,
    precision: Precision,
    world: Processes,
    networks: int = 0,
) -> tuple[Chunks, str]:
    """Chooses the chunks of a run, with the reason for the user; every process chooses the same.

    ``auto`` encodes a few of the longest texts and counts the bytes of their graph. If the graph of all rows of a step
    fits into half of the free memory, there are no chunks; if not, as many chunks as fit keep their graph. Each of an
    objective's ``networks`` is assumed to keep as much per text as the encoder.
    """
    if chunk is None:
        return Chunks(world=world), ""
    if chunk != "auto":
        return Chunks(chunk, world=world), "training.chunk"
    row = (1 + networks) * graph_bytes(encoder, inputs, precision)
    free, row = world.share((_own_share(encoder.device, world), row))
    fit = max(1, int(SHARE * free / row))
    rows = inputs.texts_per_example * batch_size
    reason = f"auto: {row / 2**20:.2f} MiB per text, {free / 2**30:.1f} GiB free"
    if rows <= fit * world.count:
        return Chunks(world=world), f"{reason}: all {rows:,} texts of a step fit"
    size = min(fit, _MOST.get(encoder.device.type, 256))
    # Chunks whose graphs fit are kept, and not computed a second time.
    return Chunks(size, keep=max(1, fit // size), world=world), reason


def _own_share(device: torch.device, world: Processes) -> int:
    """Bytes that this process can use: all that is free on its GPU, or its share of the machine's free memory."""
    return free_memory(device) // (1 if device.type == "cuda" else world.on_machine)


def graph_bytes(encoder: SentenceEncoder, inputs: InputBuilder, precision: Precision) -> float:
    """Bytes per text that a training forward pass keeps for its backward pass, for the longest texts.

    It is the difference between twice the texts and the texts, so that what a pass keeps once (weights in bf16) does
    not count. The random generator is left as it was.
    """
    ids = inputs.longest(_PROBED)
    # The difference leaves out what does not grow with the texts.
    once, twice = (_bytes_kept(encoder, encoder.tokenizer.pad(some), precision) for some in (ids, ids * 2))
    return (twice - once) / len(ids)


def _bytes_kept(encoder: SentenceEncoder, tokens: Tokens, precision: Precision) -> int:
    weights = {p.untyped_storage().data_ptr() for p in encoder.parameters()}
    storages: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        # The tensor stays alive, so that no other takes its address.
        storages.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    training = encoder.training
    with seeded(0, encoder.device), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        encoder.train()
        with precision.autocast(encoder.device):
            encoder(
                tokens.to(encoder.device), headless=bool(encoder.batch_heads)
            )  # leaves its running means as they are
    encoder.train(training)
    return sum(t.untyped_storage().nbytes() for address, t in storages.items() if address not in weights)


def free_memory(device: torch.device) -> int:
    """Free bytes on ``device``: of the GPU, or of this machine within the limit set for this process."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    free = [int(line.split()[1]) * 1024 for line in _lines(Path("/proc/meminfo")) if line.startswith("MemAvailable:")]
    limit, used, parts = (_lines(_GROUP / f"memory.{name}") for name in ("max", "current", "stat"))
    if limit and used and limit[0].isdigit():
        # The cache of files that were not used recently is released when memory is needed.
        cached = sum(int(line.split()[1]) for line in parts if line.startswith("inactive_file "))
        free.append(int(limit[0]) - int(used[0]) + cached)
    return max(0, min(free)) if free else 4 * 2**30


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return []


_WARM_UP = 2
_TIMED = 12


def plan_batches(inputs: InputBuilder, settings: TrainingSettings) -> Batches:
    """Plans the batches: of ``batch_tokens`` tokens if that is set, else of ``batch_size`` examples."""
    if settings.batch_tokens is not None:
        return TokenBatchPlan(inputs.lengths, settings.batch_tokens, settings.seed_of_order)
    return BatchPlan(len(inputs), settings.batch_size, settings.seed_of_order)


def seconds_per_step(
    encoder: SentenceEncoder,
    data_set: DataSet,
    settings: TrainingSettings,
    precision: Precision,
    chunks: Chunks = WHOLE,
    most_seconds: float | None = None,
) -> float:
    """Measures the seconds of a training step of a data set: the mean over batches spread through the first epoch.

    Complete steps are made with a learning rate of zero and an optimizer that is dropped, so that no weight changes;
    the state of the objective's parts and the encoder's buffers are restored afterwards. With ``most_seconds`` no
    further step begins once that many seconds have passed since the first timed one.
    """
    objective, batches = data_set.objective, data_set.batches
    buffers = [(buffer, buffer.clone()) for buffer in encoder.buffers()]
    state = {name: tensor.clone() for name, tensor in objective.state_dict().items()}
    optimizer = build_optimizer([*encoder.parameters(), *objective.parameters()], settings)
    set_rate(optimizer, 0.0)
    last = max(0, batches.steps_per_epoch // settings.accumulate - 1)
    spread = np.linspace(0, last, _WARM_UP + _TIMED).astype(int)
    # in random order: where the time is limited, the first batches must not be all that is timed
    order = np.random.default_rng(settings.seed).permutation(spread)
    worst_case = None if settings.worst_case is None else WorstCase(settings.worst_case, trained_weights(optimizer))
    trial = Step(encoder, objective, precision, worst_case=worst_case)
    encoder.train()
    objective.train()
    started, timed = 0.0, _TIMED
    for number, step in enumerate(order):
        if number == _WARM_UP:
            _wait(encoder.device)
            started = time.perf_counter()
        if most_seconds is not None and number > _WARM_UP and time.perf_counter() - started > most_seconds:
            timed = number - _WARM_UP
            break
        trial.gradients(step_inputs(data_set.inputs, batches, int(step), settings.accumulate, encoder, chunks))
        optimizer.step()  # at a rate of 0: its time counts, and no weight moves
        optimizer.zero_grad()
    _wait(encoder.device)
    seconds = (time.perf_counter() - started) / timed
    objective.load_state_dict(state)
    for buffer, before in buffers:
        buffer.copy_(before)
    return seconds


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
