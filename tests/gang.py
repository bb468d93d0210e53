"""Several processes make the steps of many recipes together, and compare them with those of one process.

Run as python gang.py MODEL FOLDER GANG ..., with MASTER_ADDR and MASTER_PORT set. Each GANG is a JSON list: how many
processes, the file that the first of them writes, and the names. What is imported and prepared is so before any of
them is forked.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import sklearn.mixture  # type: ignore[import-untyped]  # noqa: F401  # once, before the processes are forked; the next too
import torch
import transformers.models.bert.modeling_bert  # noqa: F401

from joined import in_processes
from opencse.objective.vectors.chunks import WHOLE, Chunks
from opencse.processes import joined
from opencse.runs.run import Prepared, device_of_process
from opencse.text import sample
from steps import gap, gradients, layers_of, prepared

CHUNK = 3
ONE = 100
"""A chunk that holds all rows of a step, so that the other processes have none; tried by more than two."""


def compare(runs: dict[str, Prepared], out: str) -> None:
    """Gaps by name: without dropout in equal shares, in chunks, in one chunk; and last of chunks with other masks."""
    found: dict[str, list[float]] = {}
    with joined(device_of_process(None) or "") as world:
        for name, run in runs.items():
            shares = gradients(run, Chunks(world=world), dropout=False)
            together = gradients(run, Chunks(CHUNK, world=world), dropout=True)
            idle = gradients(run, Chunks(ONE, world=world), dropout=True) if world.count > 2 else None
            if world.first:
                alone = gradients(run, Chunks(CHUNK), dropout=True)
                plain = gradients(run, WHOLE, dropout=False)
                gaps = [gap(shares[:-1], plain[:-1]), gap(together, alone)]
                if idle is not None:
                    gaps.append(gap(idle, gradients(run, Chunks(ONE), dropout=True)))
                found[name] = [*gaps, gap(alone[:1], plain[:1])]
                Path(out).write_text(json.dumps(found), encoding="utf-8")
        world.wait()


if __name__ == "__main__":
    torch.set_num_threads(1)
    model, folder, *gangs = sys.argv[1:]
    asked: list[tuple[int, str, list[str]]] = [json.loads(one) for one in gangs]
    sentences = [line for line in sample.TRAIN.read_text(encoding="utf-8").splitlines() if line]
    names = dict.fromkeys(name for _, _, some in asked for name in some)
    runs = {name: prepared(name, Path(model), Path(folder), sentences, layers_of(name)) for name in names}
    for count, out, some in asked:
        in_processes(count, partial(compare, {name: runs[name] for name in some}, out))
