"""Several processes make the steps of many recipes together, and compare them with those of one process.

Run as python gang.py MODEL FOLDER GANG ..., with MASTER_ADDR and MASTER_PORT set. Each GANG is a JSON list: how many
processes, the file that the first of them writes, and the names. What is imported and prepared is so before any of
them is forked.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import sklearn.mixture  # type: ignore[import-untyped]  # noqa: F401  # once, before the processes are forked; the next too
import torch
import transformers.models.bert.modeling_bert  # noqa: F401

from helpers import filled
from joined import in_processes
from opencse.objective.vectors.chunks import WHOLE, Chunks
from opencse.processes import joined
from opencse.runs.run import Run
from opencse.runs.setup import device_of_process
from opencse.text import sample
from steps import gap, gradients, layers_of, prepared

CHUNK = 3
ONE = 100
"""A chunk that holds all rows of a step, so that the other processes have none; tried by more than two."""


def compare(runs: dict[str, Run], out: str) -> None:
    """Gaps by name: of chunks with dropout; of more than two processes also in equal shares, and in one chunk."""
    found: dict[str, list[float]] = {}
    with joined(device_of_process(None) or "") as world:
        for name, run in runs.items():
            ways = [(Chunks(CHUNK), True)]
            if world.count > 2:
                ways += [(WHOLE, False), (Chunks(ONE), True)]
            for alone, dropout in ways:
                together = gradients(run, replace(alone, world=world), dropout=dropout)
                if world.first:
                    until = None if dropout else -1  # the random numbers are drawn by whoever has rows
                    gaps = gap(together[:until], gradients(run, alone, dropout=dropout)[:until])
                    found.setdefault(name, []).append(gaps)
        if world.first:
            Path(out).write_text(json.dumps(found), encoding="utf-8")
        world.wait()


if __name__ == "__main__":
    torch.set_num_threads(1)
    model, folder, *gangs = sys.argv[1:]
    asked: list[tuple[int, str, list[str]]] = [json.loads(one) for one in gangs]
    sentences = filled(sample.TRAIN)
    names = dict.fromkeys(name for _, _, some in asked for name in some)
    runs = {name: prepared(name, Path(model), Path(folder), sentences, layers_of(name)) for name in names}
    for count, out, some in asked:
        in_processes(count, partial(compare, {name: runs[name] for name in some}, out))
