"""The main job on real input: four trainings from one little-trained backbone, several seeds, seven-task table.

    python benchmarks/foundation.py --data DATA --model FOLDER --work WORK --report docs/results/foundation.md

DATA is a folder with sts/, nli/, flickr30k/ and wiki/ (see docs/results/foundation.md for their forms), FOLDER a
BERT-shaped encoder with mean pooling. Finished runs in WORK are not made again, so a broken-off call goes on.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations, groupby
from pathlib import Path

from opencse import SentenceEncoder, evaluate
from opencse.environment import Environment
from opencse.evaluation import TASKS, StsResult
from opencse.progress import Terminal
from opencse.runs.job import TrainJob
from opencse.text.readers import Source, read_line_numbers


@dataclass(frozen=True)
class Experiment:
    """A training that is repeated with several seeds."""

    key: str
    title: str
    recipe: str
    source: Source
    settings: tuple[str, ...]


def caption_pairs(folder: Path, out: Path) -> Path:
    """Of each image the two captions that share most words, lines known from the STS sets left out."""
    if not out.is_file():
        overlap = read_line_numbers(folder / "train.sts_overlap_lines.txt")
        with (folder / "train.tsv").open(encoding="utf-8") as stream:
            lines = [line.rstrip("\n").split("\t") for n, line in enumerate(stream, start=1) if n not in overlap]
        with out.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["anchor", "positive"])
            for _, group in groupby(lines, key=lambda line: line[0]):
                pairs = list(combinations([caption for _, caption in group], 2))
                if pairs:
                    writer.writerow(max(pairs, key=lambda pair: shared_words(*pair)))
    return out


def shared_words(one: str, two: str) -> float:
    """Jaccard overlap of two sentences' words."""
    a, b = (set(re.findall(r"\w+", text.lower())) for text in (one, two))
    return len(a & b) / max(1, len(a | b))


def experiments(data: Path, work: Path) -> Iterator[Experiment]:
    """The four trainings; every one selects on STS-B dev."""
    mean = ("encoder.pooling=mean", "encoder.head.kind=none", "training.batch_size=64")
    triples = Source(
        str(data / "nli" / "triples.tsv"),
        columns=("1", "2", "3"),
        skip_lines=read_line_numbers(data / "nli" / "triples.sts_overlap_lines.txt"),
    )
    yield Experiment(
        "nli", "supervised, NLI triples", "simcse-supervised", triples,
        (*mean, "training.epochs=1", "training.learning_rate=3e-4", "training.evaluate_every=25"),
    )  # fmt: skip
    captions = Source(str(caption_pairs(data / "flickr30k", work / "captions.csv")))
    yield Experiment(
        "captions", "supervised, caption pairs", "simcse-supervised", captions,
        (*mean, "training.max_steps=300", "training.learning_rate=3e-4", "training.evaluate_every=50"),
    )  # fmt: skip
    yield Experiment(
        "next", "unsupervised, next sentence", "next-sentence", Source(str(data / "wiki" / "ordered.txt.xz")),
        (*mean, "training.max_steps=200", "training.learning_rate=2e-4", "training.evaluate_every=25"),
    )  # fmt: skip
    yield Experiment(
        "dropout", "unsupervised, dropout (SimCSE)", "simcse", Source(str(data / "wiki" / "wiki100k.txt")),
        (*mean, "training.max_steps=400", "training.learning_rate=1e-5", "training.evaluate_every=50"),
    )  # fmt: skip
    yield Experiment(
        "paper", "the same, the paper's [CLS], MLP and rate", "simcse", Source(str(data / "wiki" / "wiki100k.txt")),
        ("training.max_steps=400", "training.evaluate_every=50"),
    )  # fmt: skip


def seven_tasks(model: Path, data: Path, out: Path) -> StsResult:
    """The seven-task result of a model, from ``out`` if it was made before."""
    if not out.is_file():
        evaluate(model, data / "sts", pooling=None, progress=Terminal()).write_json(out)
    return StsResult.read_json(out)


def row(label: str, dev: str, results: list[StsResult]) -> str:
    """A line of the table: mean and sd over seeds."""
    cells = [spread([float(r.sts.tasks[task].spearman.all) for r in results]) for task in TASKS]
    averages = [r.sts.average for r in results if r.sts.average is not None]
    return f"| {label} | {dev} | {' | '.join(cells)} | {spread(averages)} |"


def spread(values: list[float]) -> str:
    """``mean ± sd``; the mean alone for one value."""
    mean = f"{statistics.mean(values):.2f}"
    return mean if len(values) < 2 else f"{mean} ± {statistics.stdev(values):.2f}"


def main() -> None:
    """Runs what is missing, then writes the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--report", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 43, 44])
    parser.add_argument("--only", nargs="+", help="keys of the experiments to run")
    arguments = parser.parse_args()
    data, work = arguments.data, arguments.work
    work.mkdir(parents=True, exist_ok=True)
    start = work / "start"
    if not (start / "modules.json").is_file():
        SentenceEncoder.load(arguments.model, pooling="mean").save(start)
    header = "| training | STS-B dev | " + " | ".join(task.title for task in TASKS.values()) + " | Avg. |"
    lines = [header, "|---" * (len(TASKS) + 3) + "|"]
    first = seven_tasks(start, data, work / "start.json")
    for number, experiment in enumerate(experiments(data, work)):
        if arguments.only and experiment.key not in arguments.only:
            continue
        results, best, kept, seconds, begun = [], [], [], [], 0.0
        for seed in arguments.seeds:
            folder = work / f"{experiment.key}-{seed}"
            job = TrainJob(
                text=experiment.source,
                recipe=experiment.recipe,
                model=str(start),
                settings=(*experiment.settings, "training.checkpoint_every=100", f"training.seed={seed}"),
                dev=data / "sts" / "stsb" / "dev.tsv",
            )
            outcome = job.run(folder, resume=(folder / "run.json").is_file(), progress=Terminal())
            begun = outcome.scores[0]
            best.append(max(outcome.scores.values()))
            kept.append(outcome.kept)
            seconds.append(json.loads((folder / "run.json").read_text())["seconds"])
            results.append(seven_tasks(folder, data, work / f"{folder.name}.json"))
        if number == 0 or len(lines) == 2:
            lines.append(row("none (the start)", f"{begun:.2f}", [first]))
        lines.append(row(experiment.title, spread(best), results))
        print(f"{experiment.title}: kept {kept}, {statistics.mean(seconds):.0f} s a run", file=sys.stderr)
    environment = Environment.here("cpu")
    facts = ", ".join(f"{key} {value}" for key, value in environment.model_dump().items() if value is not None)
    text = "\n".join(lines) + f"\n\nSeeds {arguments.seeds}; {facts}; {datetime.now(UTC):%Y-%m-%d}.\n"
    print(text)
    if arguments.report:
        arguments.report.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
