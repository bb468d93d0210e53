"""Every system from one start, on one text, with the same seeds: seven STS tasks beside SimCSE's and the start's.

    python benchmarks/systems.py --data DATA --start FOLDER --work WORK --recipes simcse esimcse simcse++

DATA holds wiki/wiki100k.txt and sts/ (see docs/results/foundation.md). A recipe may carry presets
(``esimcse:reference``); --set changes every run alike. What is finished in WORK is not made again, and a run that was
broken off goes on from its checkpoint. Of each run two encoders are judged: the kept one (best on STS-B dev, the start
included) and the one of the last step, for which no label was looked at.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from scipy import stats

from opencse import SentenceEncoder, train
from opencse.cli.console import ConsoleReporter
from opencse.environment import Environment
from opencse.evaluation import EmbeddingModel, Sts, StsData, StsResult, load_sts


@dataclass(frozen=True)
class Run:
    """One run, judged.

    Attributes:
        dev: STS-B dev of the kept encoder.
        last_dev: of the last step's.
        kept: seven-task average of the kept encoder.
        last: of the last step's.
    """

    dev: float
    last_dev: float
    kept: float
    last: float


def judge(folder: Path, data: StsData, out: Path, pooling: str | None = None) -> float:
    """The seven-task average of ``folder``; the whole result is kept in ``out``."""
    if not out.is_file():
        encoder = SentenceEncoder.load(folder, pooling=pooling)
        model = EmbeddingModel(str(folder), encoder.encode, device=str(encoder.device))
        Sts().evaluate(model, data).record.write_json(out)
    average = StsResult.read_json(out).sts.average
    if average is None:
        raise SystemExit(f"{out}: not all seven tasks were there")
    return average


def run(recipe: str, seed: int, arguments: argparse.Namespace, data: StsData) -> Run:
    """Trains and judges, or reads what is finished."""
    folder = arguments.work / f"{recipe.replace(':', '_')}-{seed}"
    record = folder / "run.json"
    result = json.loads(record.read_text(encoding="utf-8")).get("result") if record.is_file() else None
    if result is None:
        train(
            arguments.data / "wiki" / "wiki100k.txt",
            folder,
            recipe=recipe,
            model=str(arguments.start),
            settings=[*arguments.set, f"training.seed={seed}"],
            dev=arguments.data / "sts" / "stsb" / "dev.tsv",
            resume=record.is_file(),
            reporter=ConsoleReporter(),
        )
    told = json.loads(record.read_text(encoding="utf-8"))
    scores = {int(step): score for step, score in told["result"]["scores"].items()}
    kept = judge(folder, data, folder / "kept.json")
    same = max(scores, key=lambda step: scores[step]) == max(scores)
    return Run(
        dev=max(scores.values()),
        last_dev=scores[max(scores)],
        kept=kept,
        last=kept if same or arguments.kept_only else judge(folder / "last", data, folder / "last.json"),
    )


def spread(values: Sequence[float]) -> str:
    """``mean ± sd``."""
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}" if len(values) > 1 else f"{values[0]:.2f}"


def paired(values: Sequence[float], baseline: Sequence[float]) -> str:
    """Mean difference over the seeds and half the width of its 95% interval (Student's t, paired by seed)."""
    gaps = [a - b for a, b in zip(values, baseline, strict=True)]
    if len(gaps) < 2:
        return f"{gaps[0]:+.2f}"
    half = float(stats.t.ppf(0.975, len(gaps) - 1)) * statistics.stdev(gaps) / len(gaps) ** 0.5
    return f"{statistics.mean(gaps):+.2f} ± {half:.2f}"


def main() -> None:
    """Runs what is missing, then prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--start", type=Path, required=True, help="the encoder that every run begins with")
    parser.add_argument("--pooling", help="to judge a start without pooling of its own by; mean if not given")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--recipes", nargs="+", required=True, help="the first one is what the others stand beside")
    parser.add_argument("--seeds", type=int, nargs="+", default=[42, 43, 44])
    parser.add_argument("--kept-only", action="store_true", help="do not judge the last step where it was not kept")
    parser.add_argument("--set", nargs="+", default=[], help="settings of every run")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    data = load_sts(arguments.data / "sts")
    start = judge(arguments.start, data, arguments.work / "start.json", arguments.pooling)
    # Seed by seed, so that a comparison broken off early is one of fewer seeds and not of fewer systems.
    runs: dict[str, list[Run]] = {recipe: [] for recipe in arguments.recipes}
    for seed in arguments.seeds:
        for recipe, done in runs.items():
            done.append(run(recipe, seed, arguments, data))
    first = runs[arguments.recipes[0]]
    beside = f"beside {arguments.recipes[0]}"
    head = ["recipe", "dev, kept", "average, kept", beside, "dev, last", "average, last", beside]
    shown = 5 if arguments.kept_only else 7
    print(f"\n| {' | '.join(head[:shown])} |")
    print("|---" * shown + "|")
    print("| " + " | ".join(["the start", "", f"{start:.2f}", *[""] * (shown - 3)]) + " |")
    for recipe, done in runs.items():
        kept, last = [r.kept for r in done], [r.last for r in done]
        cells = [
            recipe,
            spread([r.dev for r in done]),
            spread(kept),
            paired(kept, [r.kept for r in first]) if done is not first else "",
            spread([r.last_dev for r in done]),
            spread(last),
            paired(last, [r.last for r in first]) if done is not first else "",
        ]
        print(f"| {' | '.join(cells[:shown])} |")
    environment = Environment.here("cpu").model_dump(mode="json")
    print(f"\nseeds {arguments.seeds}; settings {' '.join(arguments.set)}")
    print(", ".join(f"{k} {v}" for k, v in environment.items()) + f"; {datetime.now(UTC):%Y-%m-%d}")


if __name__ == "__main__":
    main()
