"""The built-in encoder made from nothing, every stage a command: words counted, then the next sentence as the positive.

    python benchmarks/mini.py --data DATA --work WORK

DATA holds wiki/ordered.txt.xz (running text, one sentence a line, a blank line between articles), wiki/wiki100k.txt
(loose sentences), sts/ (see docs/results/family.md), transfer/ and retrieval/scifact (BEIR layout). The commands
are printed as they are run; what is finished in WORK is not made again. With --ship FOLDER the encoder of the first
seed is written there in fp16, as the package carries it. A further stage (repeated sub-words and more) is run and
evaluated too, and not shipped.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from opencse import SentenceEncoder
from opencse.environment import Environment
from opencse.evaluation import TASKS, EvaluationRecord


def opencse(*arguments: object) -> None:
    """Runs the command line, and prints what is run."""
    words = [str(a) for a in arguments]
    print("$ opencse", shlex.join(words), flush=True)
    subprocess.run([sys.executable, "-c", "from opencse.cli import main; main()", *words], check=True)


def sentences_per_second(encoder: SentenceEncoder, texts: Sequence[str]) -> float:
    """The best of three passes over ``texts``, tokenisation included."""
    paces = []
    for _ in range(3):
        started = time.perf_counter()
        encoder.encode(texts)
        paces.append(len(texts) / (time.perf_counter() - started))
    return max(paces)


def seconds_to_load(folder: Path) -> float:
    """Seconds of ``SentenceEncoder.load``, the best of five, the libraries being loaded."""
    times = []
    for _ in range(5):
        started = time.perf_counter()
        SentenceEncoder.load(folder, device="cpu")
        times.append(time.perf_counter() - started)
    return min(times)


def spread(values: Sequence[float]) -> str:
    """``mean ± sd``; the mean alone for one value."""
    mean = f"{statistics.mean(values):.2f}"
    return mean if len(values) < 2 else f"{mean} ± {statistics.stdev(values):.2f}"


@dataclass(frozen=True)
class Judged:
    """An encoder's scores: seven STS tasks and their average, the mean of the transfer tasks at hand, SciFact."""

    scores: tuple[float, ...]

    @classmethod
    def of(cls, folder: Path, data: Path, out: Path) -> Judged:
        """Three evaluations; those finished in ``out`` are not made again."""
        told = {suite: out / f"{folder.name}.{suite}.json" for suite in ("sts", "transfer", "retrieval")}
        for suite, path in told.items():
            if not path.is_file():
                fast = ["--fast"] if suite == "transfer" else []
                opencse("evaluate", folder, "--data", data / suite, "--suite", suite, *fast, "--json", path)
        scores = {
            name: one for path in told.values() for name, one in EvaluationRecord.read_json(path).values().items()
        }
        rest = ("sts.average", "transfer.average_of_present", "retrieval.scifact.ndcg_at_10")
        return cls(tuple(scores.get(name, float("nan")) for name in (*(f"sts.{task}" for task in TASKS), *rest)))


def line(label: str, dev: Sequence[float], judged: Sequence[Judged]) -> str:
    """A line of the table."""
    columns = zip(*(j.scores for j in judged), strict=True)
    return f"| {label} | {spread(dev)} | {' | '.join(spread(column) for column in columns)} |"


def train(text: Path, recipe: str, model: Path, dev: Path, seed: int, out: Path, *settings: str) -> dict[str, Any]:
    """One run, gone on with if it was begun; its run.json."""
    record = out / "run.json"
    begun = record.is_file()
    if not begun or "result" not in json.loads(record.read_text(encoding="utf-8")):
        more = [word for setting in settings for word in ("--set", setting)]
        opencse(
            "train", text, "--recipe", recipe, "--model", model, "--dev", dev, "--seed", seed, "--out", out, *more,
            *(["--resume"] if begun else []),
        )  # fmt: skip
    run: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
    return run


def best(run: dict[str, Any]) -> float:
    """Dev score of the encoder kept."""
    return max(float(score) for score in run["result"]["scores"].values())


def main() -> None:
    """Makes what is missing, then prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 43, 44, 45, 46])
    parser.add_argument("--ship", type=Path, help="where to write the encoder of the first seed in fp16")
    arguments = parser.parse_args()
    data, work = arguments.data, arguments.work
    work.mkdir(parents=True, exist_ok=True)
    text, loose, dev = data / "wiki" / "ordered.txt.xz", data / "wiki" / "wiki100k.txt", data / "sts/stsb/dev.tsv"
    start = work / "static"
    if not (start / "modules.json").is_file():
        opencse("static", text, "--vocabulary", 16_384, "--dimension", 448, "--out", start)
    nexts, lasts = [work / f"next-{s}" for s in arguments.seeds], [work / f"mini-{s}" for s in arguments.seeds]
    next_runs = [train(text, "opencse-mini", start, dev, s, out) for s, out in zip(arguments.seeds, nexts, strict=True)]
    settings = ("training.max_steps=50", "training.evaluate_every=10")
    last_runs = [
        train(loose, "esimcse++:opencse-mini", begun, dev, s, out, *settings)
        for s, begun, out in zip(arguments.seeds, nexts, lasts, strict=True)
    ]
    if arguments.ship:
        encoder = SentenceEncoder.load(nexts[0])
        card = Path(__file__).parents[1] / "src/opencse/model_folder/opencse-mini/README.md"
        encoder.save(arguments.ship, card=card.read_text(encoding="utf-8"), dtype=torch.float16)
        tokenizer = arguments.ship / "tokenizer.json"
        content = json.loads(tokenizer.read_text(encoding="utf-8"))
        # A third of the file as saved is white space.
        tokenizer.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    print("| stage | STS-B dev | " + " | ".join(t.title for t in TASKS.values()) + " | Avg. | transfer | SciFact |")
    print("|---" * (len(TASKS) + 5) + "|")
    print(line("counted, no training", [next_runs[0]["result"]["scores"]["0"]], [Judged.of(start, data, work)]))
    print(line("next sentence", [best(r) for r in next_runs], [Judged.of(f, data, work) for f in nexts]))
    made = arguments.ship or nexts[0]
    if arguments.ship:
        print(line("shipped (fp16, first seed)", [best(next_runs[0])], [Judged.of(made, data, work)]))
    print(
        line(
            "a further stage, not shipped",
            [best(r) for r in last_runs],
            [Judged.of(f, data, work) for f in lasts],
        )
    )
    texts = (data / "wiki" / "heldout10k.txt").read_text(encoding="utf-8").splitlines()
    encoder = SentenceEncoder.load(made, device="cpu")
    seconds = [[run["seconds"] for run in runs] for runs in (next_runs, last_runs)]
    print(f"\nseeds {arguments.seeds}; seconds of training {seconds}")
    print(f"encode {sentences_per_second(encoder, texts):,.0f} held-out Wikipedia sentences/s, float32, tokenised too")
    print(f"load {seconds_to_load(made):.2f} s")
    environment = Environment.here(str(encoder.device)).model_dump(mode="json")
    print(", ".join(f"{k} {v}" for k, v in environment.items()) + f"; {datetime.now(UTC):%Y-%m-%d}")


if __name__ == "__main__":
    main()
