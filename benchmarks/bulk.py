"""Rates and memory of encoding a folder by the length of the text, and what the search for near duplicates finds.

    python benchmarks/bulk.py rates --model opencse-mini --rows 10000 100000 1000000
    python benchmarks/bulk.py duplicates --rows 20000
    python benchmarks/bulk.py parts --rows 200000 --dimension 384

`rates` generates sentences of 6 to 20 words and encodes each text into a folder by `opencse.encode`, in a process of
its own on one thread, the model loaded before. It prints ids (special tokens counted, padding not) a second of the
processor, and the peak of its memory, libraries included. `duplicates` plants copies of sentences with words exchanged,
and prints how many were found by how much they truly overlap. `parts` prints what a piece costs beside encoding: its
reading and its way to another process, its file, and its line in the journal.
"""

from __future__ import annotations

import argparse
import itertools
import json
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from scale import peak, told_environment

import opencse
from opencse.bulk.folders import tasks_of
from opencse.bulk.shards import Shards, write_shard
from opencse.encoder.encoder import WINDOW
from opencse.text import sample
from opencse.text.duplicates import find_near_duplicates, pieces
from opencse.text.readers import Source

BINS = (0.0, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 1.0)
COUNTED = 10_000


def vocabulary() -> list[str]:
    """The words of the sample."""
    return sorted(set(sample.TRAIN.read_text(encoding="utf-8").lower().split()))


def sentences(count: int, seed: int = 0) -> list[str]:
    """So many, of 6 to 20 words of the sample, drawn by a seed."""
    words, random = np.array(vocabulary()), np.random.default_rng(seed)
    lengths = random.integers(6, 21, count)
    drawn = words[random.integers(0, len(words), lengths.sum())]
    return [" ".join(part) for part in np.split(drawn, np.cumsum(lengths)[:-1])]


def one(asked: argparse.Namespace) -> None:
    """Prints seconds and peak of one text."""
    torch.set_num_threads(1)
    encoder = opencse.SentenceEncoder.load(asked.model, device=asked.device)
    encoder.encode(sentences(100))
    clock, processor = time.perf_counter(), time.process_time()
    opencse.encode(encoder, asked.text, asked.text.parent / "vectors")
    spent = time.process_time() - processor, time.perf_counter() - clock
    size = sum(path.stat().st_size for path in (asked.text.parent / "vectors").iterdir())
    print(json.dumps({"processor": spent[0], "clock": spent[1], "mib": peak(), "bytes": size}))


def rates(asked: argparse.Namespace) -> None:
    """The table by rows."""
    ids = opencse.SentenceEncoder.load(asked.model, device="cpu").tokenize(sentences(COUNTED))
    each = sum(map(len, ids)) / len(ids)
    print(f"{asked.model}, {asked.device}, one thread, {each:.1f} ids a sentence")
    heads = ("rows", "processor s", "rows/s", "ids/s", "clock s", "MB written", "peak MiB")
    print(" ".join(f"{head:>11}" for head in heads))
    for rows in asked.rows:
        with tempfile.TemporaryDirectory(dir=asked.folder) as place:
            text = Path(place) / "text.txt"
            with text.open("w", encoding="utf-8") as stream:
                for start in range(0, rows, 100_000):
                    stream.writelines(f"{line}\n" for line in sentences(min(100_000, rows - start), seed=start))
            command = [
                sys.executable,
                __file__,
                "one",
                "--model",
                asked.model,
                "--text",
                str(text),
                "--device",
                asked.device,
            ]
            told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found = json.loads(told.splitlines()[-1])
        rate = rows / found["processor"]
        cells = (
            f"{rows:,}", f"{found['processor']:,.1f}", f"{rate:,.0f}", f"{rate * each:,.0f}",
            f"{found['clock']:,.1f}", f"{found['bytes'] / 1e6:,.1f}", f"{found['mib']:,.0f}",
        )  # fmt: skip
        print(" ".join(f"{cell:>11}" for cell in cells), flush=True)
    print(told_environment())


def duplicates(asked: argparse.Namespace) -> None:
    """Recall by true overlap, and rate."""
    random, words = np.random.default_rng(asked.seed), vocabulary()
    if asked.text is None:
        own = sentences(asked.rows)
    else:
        lines = asked.text.read_text(encoding="utf-8").splitlines()
        own = list(dict.fromkeys(line for line in lines if line.strip()))[: asked.rows]
    planted: list[tuple[str, float]] = []
    for row in random.choice(len(own), len(own) // 10, replace=False):
        changed = own[row].split()
        for at in random.integers(0, len(changed), random.integers(1, 4)):
            changed[at] = words[random.integers(0, len(words))]
        copy = " ".join(changed)
        one, other = set(pieces(own[row])), set(pieces(copy))
        planted.append((copy, len(one & other) / len(one | other)))
    begun = time.process_time()
    found = find_near_duplicates(((text,) for text in [*own, *(copy for copy, _ in planted)]), asked.threshold).rows
    spent = time.process_time() - begun
    print(f"{len(found):,} rows, {len(found) / spent:,.0f} a second of the processor")
    print(f"left out of the {len(own):,} sentences themselves: {int(found[: len(own)].sum()):,}")
    overlaps = np.array([overlap for _, overlap in planted])
    for low, high in itertools.pairwise(BINS):
        inside = (overlaps >= low) & ((overlaps < high) | (high == BINS[-1]))
        if inside.any():
            share = found[len(own) :][inside].mean()
            print(f"copies that overlap {low:.2f} to {high:.2f}: {share:6.1%} of {int(inside.sum()):,} found")
    print(f"threshold {asked.threshold}, seed {asked.seed}; {told_environment()}")


def parts(asked: argparse.Namespace) -> None:
    """Seconds by part, of the processor where it is that which works."""
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(dir=asked.folder) as place:
        text, out = Path(place) / "text.txt", Path(place) / "vectors"
        text.write_text("\n".join(sentences(asked.rows)) + "\n", encoding="utf-8")
        source = Source(str(text))
        out.mkdir()
        with Shards.open(out, {"rows": asked.rows, "shard_rows": WINDOW, "format": "npy"}, print) as shards:
            begun = time.process_time()
            rows = sum(1 for _ in source.examples())
            told("count and check a text", rows, time.process_time() - begun, text.stat().st_size)
            begun = time.process_time()
            tasks = [pickle.loads(pickle.dumps(task)) for task in tasks_of(source, shards)]
            told("read a text, cut it, send it", asked.rows, time.process_time() - begun, text.stat().st_size)
            begun = time.process_time()
            source.fingerprint()
            told("hash the text", asked.rows, time.process_time() - begun, text.stat().st_size)
            vectors = random.normal(size=(WINDOW, asked.dimension)).astype(np.float32)
            begun, size = time.perf_counter(), 0
            made = [write_shard(task.path, task.start, vectors[: len(task.texts)]) for task in tasks]
            size = sum(shard.bytes for shard in made)
            told(f"write and hash a file of {asked.dimension} x float32", asked.rows, time.perf_counter() - begun, size)
            begun = time.perf_counter()
            for task, shard in zip(tasks, made, strict=True):
                shards.add(task.number, shard)
            print(f"note a file: {1000 * (time.perf_counter() - begun) / len(made):.1f} ms of the clock")
    print(told_environment())


def told(what: str, rows: int, seconds: float, size: int) -> None:
    """A line."""
    print(f"{what}: {rows / seconds:,.0f} rows/s, {size / seconds / 1e6:,.0f} MB/s")


def main(arguments: Sequence[str] | None = None) -> None:
    """Does what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    table = commands.add_parser("rates")
    table.add_argument("--model", required=True)
    table.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    table.add_argument("--folder", type=Path, help="where texts and vectors go")
    table.add_argument("--device", default="cpu")
    single = commands.add_parser("one")
    single.add_argument("--device", default="cpu")
    single.add_argument("--model", required=True)
    single.add_argument("--text", type=Path, required=True)
    near = commands.add_parser("duplicates")
    near.add_argument("--rows", type=int, default=20_000)
    near.add_argument("--text", type=Path, help="sentences, one a line; generated ones by default")
    near.add_argument("--threshold", type=float, default=0.8)
    near.add_argument("--seed", type=int, default=0)
    single_parts = commands.add_parser("parts")
    single_parts.add_argument("--rows", type=int, default=200_000)
    single_parts.add_argument("--dimension", type=int, default=384)
    single_parts.add_argument("--folder", type=Path, help="where text and vectors go")
    asked = parser.parse_args(arguments)
    {"parts": parts, "rates": rates, "one": one, "duplicates": duplicates}[asked.what](asked)


if __name__ == "__main__":
    main()
