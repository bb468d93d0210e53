"""What `opencse adapt` gains by itself: default settings on collections with queries that it never sees.

    python benchmarks/adapt.py --data DATA --models opencse-mini FOLDER --seeds 42 43 44 --out study   # goes on
    python benchmarks/adapt.py --out study --table                                      # the table of what is there
    python benchmarks/adapt.py --out study --table --picture docs/results/figures/adapt.svg --picture-of opencse-mini

For each collection in BEIR's layout under ``DATA/retrieval`` the corpus alone is read (with --pairs its train
judgements too, as pairs, all or as many as the number says, drawn by the seed); nDCG@10 of its test queries, by the
vectors, by BM25 and by both, and the seven STS tasks (``DATA/sts``) are taken before and after. Both are merged by the
weight that `opencse evaluate --hybrid` takes.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from itertools import product
from operator import itemgetter
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from opencse import adapt
from opencse.analysis.figures import AFTER, BEFORE, INK, THIRD, canvas, standalone, to_svg
from opencse.documents.adaptation import read_pairs
from opencse.encoder.encoder import SentenceEncoder
from opencse.environment import Environment
from opencse.evaluation import Sts, load_sts
from opencse.evaluation.retrieval.data import load_retrieval
from opencse.evaluation.retrieval.rows import KeywordRows, Rows
from opencse.evaluation.retrieval.score import Retrieval
from opencse.progress import Terminal
from opencse.records import save_json
from opencse.training.questions import quick


def judged(folder: str | Path, collection: Path, sts: Path) -> dict[str, Any]:
    """Scores on the queries, by the vectors, BM25 and both, and the average of the seven STS tasks.

    Args:
        folder: of the model.
        collection: whose test queries are searched for.
        sts: folder of the STS tasks.
    """
    model = quick(SentenceEncoder.load(folder))
    rows = Rows(Retrieval(), load_retrieval(collection), Terminal(), KeywordRows(hybrid=True)).of([model])
    words, vectors, both = (row[row.tasks[0], "ndcg_at_10"] for row in rows.values())
    record = next(row for row in rows.values() if row.model)
    average = Sts().evaluate(model, load_sts(sts)).values().get("sts.average", 0.0)
    return {
        "ndcg@10": vectors.value,
        "recall@100": record[vectors.task, "recall_at_100"].value,
        "bm25": words.value,
        "hybrid": both.value,
        "sts": average,
        "by_query": {
            name: [round(value, 2) for value in row.extras["by_query"].values()]
            for name, row in (("bm25", words), ("ndcg@10", vectors), ("hybrid", both))
        },
    }


def once(path: Path, make: Callable[[], dict[str, Any]], judge: Callable[[], dict[str, Any]]) -> None:
    """Makes a record unless it is there; judges the model of an earlier record again if BM25 was not yet scored."""
    record = json.loads(path.read_text()) if path.is_file() else make()
    if "bm25" not in record["after"]:
        record["after"] = judge()
    elif path.is_file():
        return
    save_json(path, record)
    after = record["after"]
    print(path.stem, {key: value for key, value in after.items() if key != "by_query"}, flush=True)


def run(
    collection: Path, model: str, seed: int | None, out: Path, sts: Path, settings: list[str], pairs: str
) -> dict[str, Any]:
    """One run with its scores; without a seed, the start's."""
    made: dict[str, Any] = {
        "collection": collection.name,
        "model": Path(model).name,
        "seed": seed,
        "pairs": pairs,
        "date": datetime.now(UTC).date().isoformat(),
        "environment": Environment.here("cpu").model_dump(),
    }
    if seed is None:
        return made | {"after": judged(model, collection, sts)}
    folder = out / "runs" / named(collection, model, seed, pairs)
    resume = (folder / "run.json").is_file()
    result = adapt(
        collection,
        folder,
        pairs=drawn_pairs(collection, pairs, seed),
        model=model,
        settings=[f"training.seed={seed}", *settings],
        resume=resume,
        progress=Terminal(),
    )
    seconds = None if resume else json.loads((folder / "run.json").read_text())["seconds"]
    made |= {"kept": result.kept, "verdict": result.verdict, "seconds": seconds, "settings": settings}
    return made | {"scores": result.scores, "after": judged(folder, collection, sts)}


def drawn_pairs(collection: Path, count: str, seed: int) -> list[tuple[str, str]] | None:
    """As many of the collection's train judgements as ``count`` says; None for none."""
    if not count:
        return None
    pairs = read_pairs(collection)
    random.Random(seed).shuffle(pairs)
    return pairs if count == "all" else pairs[: int(count)]


def named(collection: Path, model: str, seed: int | None, pairs: str) -> str:
    """A run's name; the start's is the same with pairs and without."""
    which = "" if not pairs or not seed else " pairs" if pairs == "all" else f" {pairs} pairs"
    return f"{collection.name} {Path(model).name} {seed or 'start'}{which}"


def table(out: Path) -> str:
    """Means over seeds compared with the start, as Markdown."""
    records = [json.loads(path.read_text()) for path in sorted((out / "records").glob("*.json"))]
    starts = {(r["collection"], r["model"]): r["after"] for r in records if r["seed"] is None}
    lines = [
        "| model | trained on | seeds | nDCG@10 before | after | gain | recall@100 | STS before | after | kept |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    counts = sorted({str(r.get("pairs") or "") for r in records}, key=lambda count: (len(count), count))
    for (collection, model), pairs in product(sorted(starts, key=itemgetter(1, 0)), counts):
        before = starts[collection, model]
        runs = runs_of(records, collection, model, pairs)
        if not runs:
            continue
        found = [r["after"]["ndcg@10"] for r in runs]
        spread = f" ± {stdev(found):.2f}" if len(found) > 1 else ""
        gain = mean(found) - before["ndcg@10"]
        lines.append(
            f"| {model} | {collection}{f', and {pairs} of its pairs' if pairs else ''} | {len(runs)} "
            f"| {before['ndcg@10']:.2f} | {mean(found):.2f}{spread} | {gain:+.2f} "
            f"| {before['recall@100']:.2f}, then {mean(r['after']['recall@100'] for r in runs):.2f} "
            f"| {before['sts']:.2f} | {mean(r['after']['sts'] for r in runs):.2f} "
            f"| {', '.join(sorted({r['kept'] for r in runs}))} |"
        )
    return "\n".join(lines)


def runs_of(records: list[dict[str, Any]], collection: str, model: str, pairs: str) -> list[dict[str, Any]]:
    """The seeds of one run."""
    wanted = (collection, model, pairs)
    return [
        r for r in records if (r["collection"], r["model"], r.get("pairs") or "") == wanted and r["seed"] is not None
    ]


_NAMES = {"scifact": "SciFact", "manuals-de": "Manuals\n(German)"}


def picture(out: Path, model: str) -> str:
    """Bars of nDCG@10 for each collection: before, after, after with pairs; with the standard deviation over seeds."""
    records = [json.loads(path.read_text()) for path in sorted((out / "records").glob("*.json"))]
    starts = {r["collection"]: r["after"]["ndcg@10"] for r in records if r["seed"] is None and r["model"] == model}
    names = sorted(starts, key=lambda name: (not runs_of(records, name, model, "all"), name))
    figure, axes = canvas(
        f"{model}: test queries of a collection", "", "nDCG@10 x 100", width=max(5.6, 1.25 * len(names)), height=2.6
    )
    labelled = set()
    for place, name in enumerate(names):
        bars: list[tuple[float, float, str, str]] = [(starts[name], 0.0, BEFORE, "as given")]
        for pairs, colour, label in (
            ("", AFTER, "adapted to its documents"),
            ("all", THIRD, "and to its train pairs"),
        ):
            found = [r["after"]["ndcg@10"] for r in runs_of(records, name, model, pairs)]
            if found:
                bars.append((mean(found), stdev(found) if len(found) > 1 else 0.0, colour, label))
        for number, (height, error, colour, label) in enumerate(bars):
            at = place + 0.27 * (number - (len(bars) - 1) / 2)
            shown = None if label in labelled else label
            axes.bar(at, height, 0.25, yerr=error or None, color=colour, label=shown)
            axes.annotate(f"{height:.1f}", (at, height + error), ha="center", va="bottom", fontsize=7, color=INK)
            labelled.add(label)
    axes.set_axisbelow(True)
    axes.set_xticks(range(len(names)), [_NAMES.get(name, name.capitalize()) for name in names])
    axes.margins(y=0.15)
    return standalone(to_svg(figure, {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}))


def main() -> None:
    """Runs what is not there yet, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--models", nargs="+", default=["opencse-mini"])
    parser.add_argument("--collections", nargs="+", default=["cranfield", "scifact"], help="or folders elsewhere")
    parser.add_argument("--seeds", nargs="+", type=int, default=[42, 43, 44])
    parser.add_argument("--set", nargs="+", default=[], help="settings of every run")
    parser.add_argument("--pairs", nargs="?", const="all", default="", help="train on this many train judgements too")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--table", action="store_true", help="only the table of what is there")
    parser.add_argument("--picture", type=Path, help="an SVG file to draw into")
    parser.add_argument("--picture-of", default="opencse-mini", help="the model that is drawn")
    arguments = parser.parse_args()
    if not arguments.table:
        (arguments.out / "records").mkdir(parents=True, exist_ok=True)
        for seed in [None, *arguments.seeds]:
            for model in arguments.models:
                for name in arguments.collections:
                    collection = arguments.data / "retrieval" / name
                    path = arguments.out / "records" / f"{named(collection, model, seed, arguments.pairs)}.json"
                    sts = arguments.data / "sts"
                    folder = arguments.out / "runs" / path.stem
                    once(
                        path,
                        partial(run, collection, model, seed, arguments.out, sts, arguments.set, arguments.pairs),
                        partial(judged, folder if seed else model, collection, sts),
                    )
    print(table(arguments.out))
    if arguments.picture is not None:
        arguments.picture.write_text(picture(arguments.out, arguments.picture_of), encoding="utf-8")


if __name__ == "__main__":
    main()
