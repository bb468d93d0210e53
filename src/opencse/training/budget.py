"""How many texts are encoded together: as asked for, or as many as memory holds."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.kernels.precision import Precision
from opencse.objective.inputs import InputBuilder
from opencse.objective.vectors.chunks import Chunks
from opencse.objective.vectors.generator import seeded
from opencse.processes import Processes
from opencse.text.tokenizer import Tokens

SHARE = 0.5
"""Of the free memory, what the graph may take."""
_PROBED = 8
_GROUP = Path("/sys/fs/cgroup")
_MOST = {"cpu": 256, "cuda": 4_096}
"""Texts beyond which a larger chunk is hardly any faster."""


def choose_chunks(
    asked: int | Literal["auto"] | None,
    encoder: SentenceEncoder,
    inputs: InputBuilder,
    batch_size: int,
    precision: Precision,
    world: Processes,
    networks: int = 0,
) -> tuple[Chunks, str]:
    """The chunks of a run and why, for the user; every process has the same.

    ``auto`` encodes a few of the longest texts and counts the bytes of their graph. No chunks are made if those of all
    the step's rows would fit into half of the free memory; if not, as many chunks as fit keep their graph. Each of an
    objective's ``networks`` is taken to keep as much of a text as the encoder.
    """
    if asked is None:
        return Chunks(world=world), ""
    if asked != "auto":
        return Chunks(asked, world=world), "training.chunk"
    row = (1 + networks) * graph_bytes(encoder, inputs, precision)
    free, row = world.share((_own_share(encoder.device, world), row))
    fit = max(1, int(SHARE * free / row))
    rows = (2 + inputs.hard) * batch_size
    told = f"auto: {row / 2**20:.2f} MiB a text, {free / 2**30:.1f} GiB free"
    if rows <= fit * world.count:
        return Chunks(world=world), f"{told}: all {rows:,} texts of a step fit"
    chunk = min(fit, _MOST.get(encoder.device.type, 256))
    return Chunks(chunk, keep=max(1, fit // chunk), world=world), told


def _own_share(device: torch.device, world: Processes) -> int:
    """Bytes that this process can take: all that is free on its GPU, or its share of the machine's."""
    return free_memory(device) // (1 if device.type == "cuda" else world.on_machine)


def graph_bytes(encoder: SentenceEncoder, inputs: InputBuilder, precision: Precision) -> float:
    """Bytes that a training forward keeps for its backward pass, by text, for the longest texts; nothing is drawn.

    The difference between twice as many texts and those: what a forward holds once (weights in bf16) is in both.
    """
    corpus = inputs.corpus
    longest = np.argsort(np.diff(corpus.offsets), kind="stable")[-_PROBED:]
    ids = [corpus.text_ids(*divmod(int(i), corpus.width)) for i in longest]
    once, twice = (_held(encoder, encoder.tokenizer.pad(some), precision) for some in (ids, ids * 2))
    return (twice - once) / len(ids)


def _held(encoder: SentenceEncoder, tokens: Tokens, precision: Precision) -> int:
    weights = {p.untyped_storage().data_ptr() for p in encoder.parameters()}
    held: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        held.setdefault(tensor.untyped_storage().data_ptr(), tensor)  # alive, so that no other comes in its place
        return tensor

    training = encoder.training
    with seeded(0, encoder.device), torch.autograd.graph.saved_tensors_hooks(keep, lambda kept: kept):
        encoder.train()
        with precision.autocast(encoder.device):
            encoder(tokens.to(encoder.device), headless=bool(encoder.batch_heads))  # its running means stay
    encoder.train(training)
    return sum(t.untyped_storage().nbytes() for place, t in held.items() if place not in weights)


def free_memory(device: torch.device) -> int:
    """Bytes that can be taken on ``device``: of the GPU, or of this machine and the limit set for this process."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    found = [int(line.split()[1]) * 1024 for line in _lines(Path("/proc/meminfo")) if line.startswith("MemAvailable:")]
    limit, used, parts = (_lines(_GROUP / f"memory.{name}") for name in ("max", "current", "stat"))
    if limit and used and limit[0].isdigit():
        # What was read from files and not used since is given up when memory is wanted.
        cached = sum(int(line.split()[1]) for line in parts if line.startswith("inactive_file "))
        found.append(int(limit[0]) - int(used[0]) + cached)
    return max(0, min(found)) if found else 4 * 2**30


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return []
