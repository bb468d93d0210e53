"""How long a training step of each recipe takes, beside the first one's, taken in turns in one run.

    python benchmarks/steps.py --text wiki100k.txt --model FOLDER --recipes simcse esimcse simcse++

Each turn times 12 whole steps (after 2 to warm up) of every recipe: inputs, forward, loss, backward, the parts' own
work (a momentum encoder's, for instance), clipping left out, AdamW. Ratios are of the same turn; the median is told.
"""

from __future__ import annotations

import argparse
import statistics
from datetime import UTC, datetime
from pathlib import Path

from opencse.evaluation.result import Environment
from opencse.job import TrainJob
from opencse.text.readers import Source
from opencse.training.memory import keep_freed_memory
from opencse.training.pace import seconds_per_step
from opencse.training.reporter import Silent


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
        TrainJob(source, recipe, arguments.model, settings=tuple(arguments.set), dev=None)
        for recipe in arguments.recipes
    ]
    prepared = [job.prepare(Silent()) for job in jobs]
    times: list[list[float]] = [[] for _ in prepared]
    for turn in range(arguments.turns):
        for recipe, p, taken in zip(arguments.recipes, prepared, times, strict=True):
            training = p.plan.recipe.training
            taken.append(seconds_per_step(p.encoder, p.objective, p.inputs, p.batches, training, p.plan.precision))
            print(f"turn {turn + 1} {recipe}: {taken[-1]:.3f} s", flush=True)
    print("\n| recipe | s a step, median | beside the first, median of the turns | lowest, highest |")
    print("|---|---|---|---|")
    for recipe, taken in zip(arguments.recipes, times, strict=True):
        ratios = [a / b for a, b in zip(taken, times[0], strict=True)]
        middle = f"{statistics.median(ratios):.2f}"
        print(f"| {recipe} | {statistics.median(taken):.3f} | {middle} | {min(ratios):.2f}, {max(ratios):.2f} |")
    plan = prepared[0].plan
    print(f"\n{plan.tokens_per_step:,} tokens a step of {plan.batch_size} sentences; {plan.precision.name}")
    environment = Environment.here(plan.device).model_dump(mode="json")
    print(", ".join(f"{k} {v}" for k, v in environment.items()) + f"; {datetime.now(UTC):%Y-%m-%d}")


if __name__ == "__main__":
    main()
