"""A training forward and backward: packed, as transformers has it, and that one under `torch.compile`.

    python benchmarks/compiled.py --model MODEL --text TEXT

CPU time of one thread over the same batches (32 texts, 32 ids at most), a way after the other in each turn; apart from
it the whole time of the first batch, which compiles.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import median

import torch
from rows import machine

from opencse.encoder.encoder import SentenceEncoder
from opencse.text.tokenizer import Tokens

BATCH, LENGTH, BATCHES, TURNS = 32, 32, 10, 3


def seconds(encoder: SentenceEncoder, batches: list[Tokens], clock: Callable[[], float] = time.process_time) -> float:
    """Time of the batches."""
    started = clock()
    for batch in batches:
        vectors = encoder(batch).sentence
        vectors.square().sum().backward()
        encoder.zero_grad()
    return clock() - started


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--text", type=Path, required=True, help="a sentence a line")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with asked.text.open(encoding="utf-8") as stream:
        texts = [line.strip() for line in islice(stream, BATCH * (BATCHES + 1))]
    encoders = {
        name: SentenceEncoder.load(asked.model, pooling="cls", device="cpu").train()
        for name in ("packed", "plain", "compiled")
    }
    encoders["packed"].packed = True
    encoders["compiled"].backbone.compile(dynamic=True)
    ids = encoders["plain"].tokenizer.encode(texts, LENGTH)
    pad = encoders["plain"].tokenizer.pad
    first, *batches = [pad(ids[start : start + BATCH]) for start in range(0, len(ids), BATCH)]
    begun = {name: seconds(encoder, [first], time.perf_counter) for name, encoder in encoders.items()}
    taken: dict[str, list[float]] = {name: [] for name in encoders}
    for _ in range(TURNS):
        for name, encoder in encoders.items():
            taken[name].append(seconds(encoder, batches))
    print("| forward and backward | first batch, s | a batch, ms |\n|---|---:|---:|")
    for name, times in taken.items():
        print(f"| {name} | {begun[name]:.1f} | {1e3 * median(times) / BATCHES:.0f} |")
    print(machine())


if __name__ == "__main__":
    main()
