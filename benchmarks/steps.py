"""How long a training step of each recipe takes, beside the first one's, taken in turns in one run.

    python benchmarks/steps.py --text wiki100k.txt --model FOLDER --recipes simcse esimcse simcse++

Each turn times 12 whole steps (after 2 to warm up) of every recipe, and of the first one right before it: inputs,
forward, loss, backward, the parts' own work (a momentum encoder's, for instance), AdamW; clipping is left out. A ratio
is of two neighbours in time, because the machine's pace changes within minutes; the median over the turns is told.

Memory is the largest a process of its own ever held while it made those steps: resident on a CPU, allocated on a GPU.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
from datetime import UTC, datetime
from pathlib import Path

import torch

from opencse.environment import Environment
from opencse.progress import Silent
from opencse.runs.job import Prepared, TrainJob
from opencse.text.readers import Source
from opencse.training.memory import keep_freed_memory
from opencse.training.pace import seconds_per_step


def pace(p: Prepared) -> float:
    """Seconds a step."""
    return seconds_per_step(p.encoder, p.objective, p.inputs, p.batches, p.plan.recipe.training, p.plan.precision)


def peak_memory(job: TrainJob) -> float:
    """MiB at the most while steps were made, in this process."""
    keep_freed_memory()
    prepared = job.prepare(Silent())
    pace(prepared)
    if prepared.plan.device.startswith("cuda"):
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10  # kibibytes on Linux


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--recipes", nargs="+", required=True)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--set", nargs="+", default=[], help="settings of every recipe")
    arguments = parser.parse_args()
    keep_freed_memory()
    source = Source(str(arguments.text))
    jobs = [
        TrainJob(text=source, recipe=recipe, model=arguments.model, settings=tuple(arguments.set), dev=None)
        for recipe in arguments.recipes
    ]
    prepared = [job.prepare(Silent()) for job in jobs]
    first, *others = prepared
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as alone:
        memory = [alone.apply(peak_memory, (job,)) for job in jobs]
    times: list[list[tuple[float, float]]] = [[] for _ in others]
    for turn in range(arguments.turns):
        for recipe, p, taken in zip(arguments.recipes[1:], others, times, strict=True):
            taken.append((pace(first), pace(p)))
            print(f"turn {turn + 1} {recipe}: {taken[-1][1]:.3f} s, before it {taken[-1][0]:.3f} s", flush=True)
    name = arguments.recipes[0]
    print(
        f"\n| recipe | s a step, median | {name} before it | ratio, median | lowest, highest "
        f"| peak MiB | beside {name}'s {memory[0]:.0f} |"
    )
    print("|---|---|---|---|---|---|---|")
    for recipe, taken, peak in zip(arguments.recipes[1:], times, memory[1:], strict=True):
        ratios = [b / a for a, b in taken]
        median = [f"{statistics.median(column):.3f}" for column in (list(c) for c in zip(*taken, strict=True))]
        print(
            f"| {recipe} | {median[1]} | {median[0]} | {statistics.median(ratios):.2f} "
            f"| {min(ratios):.2f}, {max(ratios):.2f} | {peak:.0f} | {peak / memory[0]:.2f} |"
        )
    plan = prepared[0].plan
    print(f"\n{plan.tokens_per_step:,} tokens a step of {plan.batch_size} sentences; {plan.precision.name}")
    environment = Environment.here(plan.device).model_dump(mode="json")
    print(", ".join(f"{k} {v}" for k, v in environment.items()) + f"; {datetime.now(UTC):%Y-%m-%d}")


if __name__ == "__main__":
    main()
