"""One of several processes that make the steps of many recipes together, and compare them with those of one process.

Run as python gang.py MODEL FOLDER OUT NAME ..., with torchrun's variables set; the first process writes OUT.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from opencse.objective.vectors.chunks import WHOLE, Chunks
from opencse.processes import joined
from opencse.runs.job import device_of_process
from opencse.text import sample
from steps import gap, gradients, prepared

CHUNK = 3
ONE = 100
"""A chunk that holds all rows of a step, so that the other processes have none."""


def main() -> None:
    """Gaps by name: without dropout in equal shares, in chunks, in one chunk; and of chunks whose masks are others."""
    torch.set_num_threads(1)
    model, folder, out, *names = sys.argv[1:]
    sentences = [line for line in sample.TRAIN.read_text(encoding="utf-8").splitlines() if line]
    found: dict[str, list[float]] = {}
    with joined(device_of_process(None) or "") as world:
        for name in names:
            with world.first_alone():
                run = prepared(name, Path(model), Path(folder), sentences)
            shares = gradients(run, Chunks(world=world), dropout=False)
            together = gradients(run, Chunks(CHUNK, world=world), dropout=True)
            idle = gradients(run, Chunks(ONE, world=world), dropout=True)
            if world.first:
                alone = gradients(run, Chunks(CHUNK), dropout=True)
                plain = gradients(run, WHOLE, dropout=False)
                one = gradients(run, Chunks(ONE), dropout=True)
                gaps = [gap(shares[:-1], plain[:-1]), gap(together, alone), gap(idle, one)]
                found[name] = [*gaps, gap(alone[:1], plain[:1])]
                Path(out).write_text(json.dumps(found), encoding="utf-8")
        world.wait()


if __name__ == "__main__":
    main()
