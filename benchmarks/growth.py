"""What a process holds as the steps of `opencse adapt` go by, one after the other.

    python benchmarks/growth.py --model FOLDER --corpus DATA/retrieval/cranfield

Times are of the processor (one thread), so that other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import torch
from scale import step_of, told_environment
from soak import resident

from opencse.adapting.adaptation import RECIPE, plan_adaptation
from opencse.objective.vectors.chunks import WHOLE
from opencse.progress import Silent
from opencse.runs.job import TrainJob
from opencse.training.memory import keep_freed_memory


def main() -> None:
    """Prints what is held after each eighth of the steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--corpus", type=Path, required=True, help="documents, as opencse adapt has them")
    parser.add_argument("--steps", type=int, default=64)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    adaptation = plan_adaptation(asked.corpus, model=asked.model, progress=Silent())
    run = TrainJob(
        text=adaptation.text,
        recipe=RECIPE,
        model=asked.model,
        preset=adaptation.preset,
        dev=adaptation.dev,
        device="cpu",
    ).prepare(Silent())
    keep_freed_memory()  # as `opencse train` does
    step, held = step_of(run, WHOLE), []
    started = time.process_time()
    for number in range(asked.steps):
        step(number)
        held.append(resident(os.getpid()))
    every = max(1, asked.steps // 8)
    print(f"{asked.model} on {asked.corpus}: {(time.process_time() - started) / asked.steps:.2f} s of processor a step")
    print("MiB held after steps:", ", ".join(f"{n + 1}: {held[n]:,.0f}" for n in range(every - 1, asked.steps, every)))
    print(told_environment())


if __name__ == "__main__":
    main()
