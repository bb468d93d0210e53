"""A training step as texts grow longer: tokens a second and memory, with as many tokens in every step.

    python benchmarks/lengths.py --shape mini
    python benchmarks/lengths.py --model MINILM --lengths 128 256 --mixed

Texts are lines of the sample joined to more than the length, so that every text fills it; recipe simcse, [CLS], the
packed forward in bf16 where the processor has it; each length in a process of its own, one thread, processor time.
``--mixed``: of 64 texts in a step six fill the length, the others have some 24 ids; with attention by groups of like
length (`opencse.kernels.groups`), and with the batch whole.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import time
import warnings
from pathlib import Path

import torch
from rows import machine
from scale import peak, step_of
from speed import SHAPES, lines, quiet, shaped

from opencse.kernels import groups
from opencse.objective.vectors.chunks import WHOLE
from opencse.progress import Silent
from opencse.runs.job import TrainJob
from opencse.text import sample
from opencse.text.readers import Source
from opencse.training.memory import keep_freed_memory

LENGTHS = (16, 32, 64, 128, 256, 512)
STEPS = 8


MIXED, FEW_WORDS = 64, 20


def long_texts(length: int, count: int, path: Path, *, every: int = 1) -> Path:
    """``count`` texts of more than ``length`` ids (one in ``every``): so many words, of lines one after the other."""
    words = " ".join(lines(str(sample.TRAIN))).split()
    sizes = [length if number % every == 0 else FEW_WORDS for number in range(count)]
    rows = [" ".join(words[(start * 7 + i) % len(words)] for i in range(size)) for start, size in enumerate(sizes)]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def cost(model: str, length: int, tokens: int, folder: str, mixed: bool, whole: bool) -> tuple[float, float]:
    """Seconds a step, and MiB at the most beyond what was held before; to be called in a process of its own."""
    warnings.simplefilter("ignore")
    quiet()
    keep_freed_memory()
    torch.set_num_threads(1)
    batch = MIXED if mixed else tokens // (2 * length)
    text = long_texts(length, 16 * batch, Path(folder) / f"{length}.txt", every=11 if mixed else 1)
    if whole:
        groups._SHORT = length
    settings = (
        f"training.batch_size={batch}",
        f"data.max_length={length}",
        "encoder.pooling=cls",
        "encoder.head.kind=none",
    )
    p = TrainJob(
        text=Source(str(text)), recipe="simcse", model=model, settings=settings, dev=None, device="cpu"
    ).prepare(Silent())
    before = peak()
    step = step_of(p, WHOLE)
    taken = []
    for number in range(2 + STEPS):
        started = time.process_time()
        step(number)
        taken.append(time.process_time() - started)
    return statistics.median(taken[2:]), peak() - before


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="mini", choices=tuple(SHAPES))
    parser.add_argument("--model", help="a folder, instead of a shape of random weights")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--tokens", type=int, default=4_096, help="in a step, both copies together")
    parser.add_argument("--mixed", action="store_true")
    asked = parser.parse_args()
    quiet()

    def in_a_process(model: str, length: int, folder: str, *, whole: bool = False) -> tuple[float, float]:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            return pool.apply(cost, (model, length, asked.tokens, folder, asked.mixed, whole))

    if asked.mixed:
        print("| length | seconds a step, by groups | whole | ratio | extra memory, by groups | whole |")
        print("|---:|---:|---:|---:|---:|---:|")
    else:
        print("| length | texts in a step | tokens/s | extra memory |\n|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        model = asked.model or shaped(asked.shape, Path(folder) / asked.shape)
        for length in asked.lengths:
            seconds, memory = in_a_process(model, length, folder)
            if asked.mixed:
                other, more = in_a_process(model, length, folder, whole=True)
                ratio = f"{other / seconds:.2f}x | {memory:,.0f} MiB | {more:,.0f} MiB"
                print(f"| {length} | {seconds:.2f} | {other:.2f} | {ratio} |", flush=True)
            else:
                batch = asked.tokens // (2 * length)
                rate = 2 * batch * length / seconds
                print(f"| {length} | {batch} | {rate:,.0f} | {memory:,.0f} MiB |", flush=True)
    torch.set_num_threads(1)
    print(f"\n{machine()}")


if __name__ == "__main__":
    main()
