"""The built-in encoder made from nothing: counted word vectors, then next-sentence contrast; every stage a command.

    python benchmarks/mini.py --data DATA --work WORK

DATA holds wiki/ordered.txt.xz (running text, one sentence a line, a blank line between articles), sts/ (see
docs/results/foundation.md) and retrieval/scifact (BEIR layout). The commands are printed as they are run; what is
finished in WORK is not made again. With --ship FOLDER the encoder of the first seed is written there in fp16, as the
package carries it.
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
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

from opencse import SentenceEncoder
from opencse.evaluation import TASKS, StsResult
from opencse.evaluation.result import Environment
from opencse.search.exact import top_k


def opencse(*arguments: object) -> None:
    """Runs the command line, and prints what is run."""
    words = [str(a) for a in arguments]
    print("$ opencse", shlex.join(words), flush=True)
    subprocess.run([sys.executable, "-c", "from opencse.cli import main; main()", *words], check=True)


def ndcg_at_10(encoder: SentenceEncoder, folder: Path) -> float:
    """nDCG@10, x 100, of the test queries of a BEIR folder (binary or graded gains, log2 discount), cosine."""
    documents = [json.loads(line) for line in (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]
    asked = [json.loads(line) for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    gains: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, document, gain = line.split("\t")
        gains.setdefault(query, {})[document] = int(gain)
    queries = [q for q in asked if q["_id"] in gains]
    vectors = encoder.encode([f"{d.get('title', '')} {d['text']}".strip() for d in documents])
    places, _ = top_k(encoder.encode([q["text"] for q in queries]), vectors, 10)
    discount = 1 / np.log2(np.arange(2, 12))
    scores = []
    for query, found in zip(queries, places, strict=True):
        wanted = gains[query["_id"]]
        got = [wanted.get(documents[int(p)]["_id"], 0) for p in found]
        best = sorted(wanted.values(), reverse=True)[:10]
        scores.append(float(got @ discount) / float(best @ discount[: len(best)]))
    return 100 * statistics.mean(scores)


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


def line(label: str, dev: Sequence[float], results: Sequence[StsResult], scifact: Sequence[float]) -> str:
    """A line of the table."""
    tasks = [spread([float(r.sts.tasks[task].spearman.all) for r in results]) for task in TASKS]
    averages = [r.sts.average for r in results if r.sts.average is not None]
    return f"| {label} | {spread(dev)} | {' | '.join(tasks)} | {spread(averages)} | {spread(scifact)} |"


def judge(folder: Path, data: Path, out: Path) -> tuple[StsResult, float]:
    """Seven tasks and SciFact."""
    if not out.is_file():
        opencse("evaluate", folder, "--data", data / "sts", "--json", out)
    return StsResult.read_json(out), ndcg_at_10(SentenceEncoder.load(folder), data / "retrieval" / "scifact")


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
    text, dev = data / "wiki" / "ordered.txt.xz", data / "sts" / "stsb" / "dev.tsv"
    start = work / "static"
    if not (start / "modules.json").is_file():
        opencse("static", text, "--vocabulary", 16_384, "--dimension", 448, "--out", start)
    kept, dev_scores, seconds = [], [], []
    for seed in arguments.seeds:
        folder = work / f"next-{seed}"
        resume = ["--resume"] if (folder / "run.json").is_file() else []
        opencse(
            "train", text, "--recipe", "opencse-mini", "--model", start, "--dev", dev,
            "--seed", seed, "--out", folder, *resume,
        )  # fmt: skip
        run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        dev_scores.append({int(k): v for k, v in run["result"]["scores"].items()})
        seconds.append(run["seconds"])
        kept.append(folder)
    if arguments.ship:
        encoder = SentenceEncoder.load(kept[0])
        card = Path(__file__).parents[1] / "docs" / "opencse-mini.md"
        encoder.save(arguments.ship, card=card.read_text(encoding="utf-8"), dtype=torch.float16)
        kept.append(arguments.ship)
    judged = [judge(folder, data, work / f"{folder.name}.json") for folder in kept]
    first = judge(start, data, work / "static.json")
    print("| stage | STS-B dev | " + " | ".join(task.title for task in TASKS.values()) + " | Avg. | SciFact nDCG@10 |")
    print("|---" * (len(TASKS) + 4) + "|")
    print(line("counted, no training", [dev_scores[0][0]], [first[0]], [first[1]]))
    trained = judged[: len(arguments.seeds)]
    best = [max(scores.values()) for scores in dev_scores]
    print(line("next sentence", best, [r for r, _ in trained], [n for _, n in trained]))
    if arguments.ship:
        print(line("shipped (fp16, first seed)", best[:1], [judged[-1][0]], [judged[-1][1]]))
    texts = (data / "wiki" / "heldout10k.txt").read_text(encoding="utf-8").splitlines()
    encoder = SentenceEncoder.load(kept[-1], device="cpu")
    print(f"\nseeds {arguments.seeds}; seconds of training {seconds}")
    print(f"encode {sentences_per_second(encoder, texts):,.0f} held-out Wikipedia sentences/s, float32, tokenised too")
    print(f"load {seconds_to_load(kept[-1]):.2f} s")
    environment = Environment.here(str(encoder.device)).model_dump(mode="json")
    print(", ".join(f"{k} {v}" for k, v in environment.items()) + f"; {datetime.now(UTC):%Y-%m-%d}")


if __name__ == "__main__":
    main()
