"""Chooses how many texts are encoded together: as set, or as many as fit into memory."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.kernels.precision import Precision
from opencse.objective.inputs import InputBuilder
from opencse.objective.vectors.chunks import Chunks, seeded
from opencse.processes import Processes
from opencse.text.tokenizer import Tokens

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
