"""Whether the packed training forward learns as the plain one does: loss curves of both, over several seeds.

    python benchmarks/curves.py --steps 200 --json curves.json --picture docs/results/figures/curves.svg

Of a BERT of 2 layers x 128 with random weights, unless a ``--model``, a folder, is given.

Without dropout both compute the same function: at one seed in float32 the curves are to lie on each other, and how far
apart they come is told. Dropout masks differ between the two ways, so with dropout single losses do; their means over
seeds and steps should not.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rows import machine
from speed import quiet, shaped

from opencse.analysis.figures.base import coloured, new_figure, standalone, to_svg
from opencse.runs.job import TrainJob
from opencse.text import sample
from opencse.text.readers import Source
from opencse.training.memory import keep_freed_memory

PARTS = 5
WAYS = {False: "plain", True: "packed"}


@dataclass(frozen=True)
class Curves:
    """Losses of one way under one arithmetic.

    Attributes:
        kind: the arithmetic, and whether there is dropout.
        way: ``plain`` or ``packed``.
        runs: of each seed the loss of each step.
    """

    kind: str
    way: str
    runs: list[list[float]]

    def parts(self) -> list[str]:
        """Mean loss of each fifth of the run, with the sd over the seeds."""
        size = len(self.runs[0]) // PARTS
        fifths = [[statistics.fmean(run[i * size : (i + 1) * size]) for run in self.runs] for i in range(PARTS)]
        return [f"{statistics.fmean(part):.4f}{spread(part)}" for part in fifths]

    def mean(self) -> list[float]:
        """The loss of each step, over the seeds."""
        return [statistics.fmean(step) for step in zip(*self.runs, strict=True)]


def spread(values: Sequence[float]) -> str:
    """The sd, where there are several values."""
    return f" (sd {statistics.stdev(values):.4f})" if len(values) > 1 else ""


def losses(asked: argparse.Namespace, packed: bool, seed: int, *settings: str) -> list[float]:
    """The loss of each step of a run."""
    settings = (
        *settings,
        f"training.packed={str(packed).lower()}",
        f"training.seed={seed}",
        f"training.max_steps={asked.steps}",
        f"training.batch_size={asked.batch}",
        f"training.learning_rate={asked.rate}",
        "training.epochs=1000",
        "training.log_every=1",
        "data.max_length=32",
    )
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        TrainJob(text=Source(asked.text), recipe="simcse", model=asked.model, settings=settings, dev=None).run(run)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def apart(plain: Curves, packed: Curves) -> float:
    """The largest difference of two losses of one seed and step."""
    pairs = zip(plain.runs, packed.runs, strict=True)
    return max(abs(a - b) for one, other in pairs for a, b in zip(one, other, strict=True))


def smoothed(values: Sequence[float], width: int = 10) -> list[float]:
    """Means over up to ``width`` steps before each."""
    return [statistics.fmean(values[max(0, i - width + 1) : i + 1]) for i in range(len(values))]


def drawn(found: Sequence[Curves]) -> str:
    """An axis for each arithmetic: the seeds thin, their mean thick."""
    kinds = list(dict.fromkeys(curves.kind for curves in found))
    figure = new_figure(3.6 * len(kinds), 2.8)
    panels = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    for axes, kind in zip(panels, kinds, strict=True):
        ways = {curves.way: curves for curves in found if curves.kind == kind}
        for (colour, way, curves), dash in zip(coloured(ways), ("-", "--"), strict=True):
            for run in curves.runs if len(curves.runs) > 1 else ():
                axes.plot(smoothed(run), dash, color=colour, linewidth=0.5, alpha=0.4)
            axes.plot(smoothed(curves.mean()), dash, color=colour, linewidth=1.5, label=way)
        axes.set(title=kind, xlabel="step", ylabel="loss, mean of 10 steps" if axes is panels[0] else "", yscale="log")
        axes.legend(fontsize=8, frameon=False)
    return standalone(to_svg(figure))


def main() -> None:
    """Prints the table, and writes what else is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a folder of a BERT-shaped model")
    parser.add_argument("--text", default=str(sample.TRAIN))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--precision", nargs="+", default=["float32", "bf16"])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path, help="an SVG file to draw into")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    quiet()
    keep_freed_memory()
    kinds = {"float32, no dropout": ((asked.seeds[0],), ("training.precision=float32", "encoder.dropout=0"))}
    kinds |= {f"{one}, dropout": (tuple(asked.seeds), (f"training.precision={one}",)) for one in asked.precision}
    found: list[Curves] = []
    place = tempfile.TemporaryDirectory()
    asked.model = asked.model or shaped("small", Path(place.name) / "small")
    print(f"| way | {' | '.join(f'fifth {i + 1}' for i in range(PARTS))} |\n|---{'|---' * PARTS}|")
    for kind, (seeds, settings) in kinds.items():
        for packed, way in WAYS.items():
            found.append(Curves(kind, way, [losses(asked, packed, seed, *settings) for seed in seeds]))
            print(f"| {kind}, {way} | {' | '.join(found[-1].parts())} |", flush=True)
    print(f"\nWithout dropout the largest difference of a step's losses: {apart(found[0], found[1]):.2g}")
    print(machine())
    if asked.json:
        asked.json.write_text(json.dumps({"machine": machine(), "curves": [asdict(c) for c in found]}) + "\n", "utf-8")
    if asked.picture:
        asked.picture.parent.mkdir(parents=True, exist_ok=True)
        asked.picture.write_text(drawn(found), encoding="utf-8")
    place.cleanup()


if __name__ == "__main__":
    main()
