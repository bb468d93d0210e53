"""The contrastive loss as the batch grows: time and memory of it with its gradients, in tiles and dense.

    python benchmarks/loss.py --batches 64 256 1024 4096 --json loss.json
    python benchmarks/loss.py --batches 65536 --turns 1

In-batch negatives, cosine, temperature .05, duplicates looked for; vectors of 768 dimensions in float32, both with
gradient. Memory is the most that the process held beyond the vectors and their gradients, each measurement in a process
of its own. The dense loss is left out where it would need more than ``--most`` GB.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rows import machine

from opencse.objective.contrast import TILE_BYTES
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.step import Representations

WIDTH = 768
DENSE_COPIES = 8
"""Matrices of all similarities that the dense loss holds at once, roughly, masks included."""


@dataclass(frozen=True)
class Cost:
    """What one way costs at one batch.

    Attributes:
        way: ``tiles`` or ``dense``.
        batch: examples (N).
        seconds: of processor time, median, for the loss with its gradients.
        megabytes: the most that the process held beyond the vectors and their gradients.
        loss: its value, the same for both ways up to rounding.
    """

    way: str
    batch: int
    seconds: float
    megabytes: float
    loss: float


def cost(way: str, batch: int, turns: int) -> Cost:
    """Measures one way at one batch; to be called in a process of its own."""
    torch.manual_seed(0)
    tile_bytes = 10**15 if way == "dense" else TILE_BYTES
    objective = Objective.from_settings(ObjectiveSettings(tile_bytes=tile_bytes))
    anchor = torch.randn(batch, WIDTH).requires_grad_()
    positive = (anchor.detach() + 2 * torch.randn(batch, WIDTH)).requires_grad_()
    keys = torch.arange(2 * batch).reshape(batch, 2)
    reps = Representations(anchor, positive, anchor.detach().unsqueeze(1)[:, :0], keys)
    gradients = [torch.zeros_like(anchor).add_(1), torch.zeros_like(positive).add_(1)]
    anchor.grad, positive.grad = gradients
    small = Representations(anchor[:8], positive[:8], reps.hard[:8], keys[:8])
    objective(small).total.backward()
    before = held()
    taken = []
    value = 0.0
    for _ in range(turns):
        started = time.process_time()
        total = objective(reps).total
        total.backward()
        taken.append(time.process_time() - started)
        value = float(total.detach())
    return Cost(way, batch, statistics.median(taken), held() - before, value)


def held() -> float:
    """The most memory this process ever held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, nargs="+", default=[64, 256, 1024, 4096])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--most", type=float, default=4.0, help="GB that the dense loss may take")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found: list[Cost] = []
    print(
        machine(),
        "",
        "| batch | way | seconds of processor time | extra memory | loss |",
        "|---|---|---|---|---|",
        sep="\n",
    )
    for batch in asked.batches:
        for way in ("dense", "tiles"):
            if way == "dense" and DENSE_COPIES * 4 * batch**2 > asked.most * 1e9:
                continue
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                one = pool.apply(cost, (way, batch, asked.turns))
            found.append(one)
            print(
                f"| {one.batch:,} | {one.way} | {one.seconds:.4g} | {one.megabytes:,.0f} MB | {one.loss:.6f} |",
                flush=True,
            )
    if asked.json:
        made = {"machine": machine(), "costs": [asdict(one) for one in found]}
        asked.json.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
