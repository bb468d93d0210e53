"""Whether the packed training forward learns as the plain one does: loss curves of both, over several seeds.

    python benchmarks/curves.py --model FOLDER --text TEXT --steps 200 --seeds 0 1 2

Dropout masks differ between the two ways, so single losses do; their means over seeds and steps should not.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path

from rows import machine

from opencse.runs.job import TrainJob
from opencse.text import sample
from opencse.text.readers import Source

PARTS = 5


def losses(asked: argparse.Namespace, packed: bool, seed: int, precision: str) -> list[float]:
    """Mean loss of each fifth of a run."""
    settings = (
        f"training.packed={str(packed).lower()}",
        f"training.seed={seed}",
        f"training.precision={precision}",
        f"training.max_steps={asked.steps}",
        f"training.batch_size={asked.batch}",
        f"training.learning_rate={asked.rate}",
        "training.epochs=1000",
        "training.log_every=1",
        "data.max_length=32",
    )
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        TrainJob(Source(asked.text), "simcse", asked.model, settings=settings, dev=None).run(run)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    found = [line["loss"] for line in lines if "loss" in line]
    size = len(found) // PARTS
    return [statistics.fmean(found[i * size : (i + 1) * size]) for i in range(PARTS)]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--text", default=str(sample.TRAIN))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--precision", nargs="+", default=["float32", "bf16"])
    asked = parser.parse_args()
    print(f"| way | {' | '.join(f'fifth {i + 1}' for i in range(PARTS))} |\n|---{'|---' * PARTS}|")
    for precision in asked.precision:
        for packed in (False, True):
            runs = [losses(asked, packed, seed, precision) for seed in asked.seeds]
            told = [
                f"{statistics.fmean(part):.4f} (sd {statistics.stdev(part):.4f})" for part in zip(*runs, strict=True)
            ]
            print(f"| {precision}, {'packed' if packed else 'plain'} | {' | '.join(told)} |", flush=True)
    print(machine())


if __name__ == "__main__":
    main()
