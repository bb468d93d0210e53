"""Writes docs/results/adapt.md: what `opencse adapt` gains on collections with queries that it never reads.

    python docs/build_adapt.py [--study FOLDER --machine "an Intel Xeon, one thread"]

FOLDER is that of benchmarks/adapt.py. Its runs are first put into docs/results/records/adapt-runs.json, with their
differences query by query; a run that the record already has is replaced. The page is docs/adapt.md.jinja, filled
from that file.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined

from opencse.numerals import number_of
from opencse.records import save_json, save_text
from opencse.statistics import paired_queries

RESULTS = Path(__file__).parent / "results"
TEMPLATE = Path(__file__).with_name("adapt.md.jinja")
PAGE, RECORD = RESULTS / "adapt.md", RESULTS / "records" / "adapt-runs.json"
TITLES = {"scifact": "SciFact", "manuals-de": "manuals, in German", "cranfield": "Cranfield"}
ORDER = ["cranfield", "scifact", "docstrings", "packages", "manuals", "dictionary", "manuals-de"]
Run = dict[str, Any]


def gather(study: Path, machine: str) -> list[Run]:
    """The runs of a study, without the scores of single queries, and with what these say about the means."""
    raw = [json.loads(path.read_text(encoding="utf-8")) for path in sorted((study / "records").glob("*.json"))]
    starts = {(one["collection"], one["model"]): one["after"]["by_query"] for one in raw if one["seed"] is None}
    runs = []
    for one in raw:
        after = dict(one["after"])
        scores = after.pop("by_query")
        versions = one["environment"]
        kept: Run = {key: one[key] for key in ("collection", "model", "seed", "pairs", "date")}
        kept |= {"machine": machine, "commit": versions["commit"], "torch": versions["torch"], "after": after}
        better = "ndcg@10" if mean(scores["ndcg@10"]) > mean(scores["bm25"]) else "bm25"
        kept["differences"] = {"hybrid - better part": difference(scores["hybrid"], scores[better])}
        if one["seed"] is not None:
            kept |= {key: one[key] for key in ("kept", "seconds", "scores")}
            start = starts[one["collection"], one["model"]]
            for name in ("ndcg@10", "hybrid"):
                kept["differences"][f"{name} - start"] = difference(scores[name], start[name])
        runs.append(kept)
    return runs


def difference(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """The mean difference over queries and its 95% interval, by the paired t-test."""
    paired = paired_queries(np.array(ours), np.array(theirs))
    return [round(value, 2) for value in (paired.difference, *(paired.interval or ()))]


def key_of(run: Mapping[str, Any]) -> tuple[str, ...]:
    """What tells runs apart."""
    return tuple(str(run[key]) for key in ("collection", "model", "pairs", "seed"))


def trained(runs: Sequence[Run], **of: str) -> list[Run]:
    """The runs, without the starts, whose collection, model and pairs are those that are given."""
    return [run for run in runs if run["seed"] is not None and all(run[key] == value for key, value in of.items())]


def table(runs: Sequence[Run], model: str) -> str:
    """One row per collection: the start, BM25, both, and each of them adapted."""
    rows = []
    for name in sorted({run["collection"] for run in runs if run["model"] == model}, key=ORDER.index):
        here = [run for run in runs if (run["collection"], run["model"]) == (name, model)]
        start = next(run["after"] for run in here if run["seed"] is None)
        cells = [TITLES.get(name, name), *(f"{start[key]:.2f}" for key in ("bm25", "ndcg@10", "hybrid"))]
        for pairs, key in (("", "ndcg@10"), ("", "hybrid"), ("all", "ndcg@10")):
            cells.append(spread([run["after"][key] for run in trained(here, pairs=pairs)]))
        rows.append(cells)
    head = ["collection", "BM25", "start", "start + BM25", "adapted", "adapted + BM25", "with pairs"]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rows])


def spread(values: Sequence[float]) -> str:
    """Mean, with the standard deviation over seeds where there are several; ``-`` for none."""
    if not values:
        return "-"
    return f"{mean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")


def gains(runs: Sequence[Run], model: str, pairs: str) -> dict[str, Any]:
    """The gain over the start and the loss on STS, over the collections that have such runs; empty where none has."""
    starts = {run["collection"]: run["after"] for run in runs if run["model"] == model and run["seed"] is None}
    made = trained(runs, model=model, pairs=pairs)
    if not made:
        return {}
    by_collection: dict[str, list[float]] = {}
    losses = [starts[run["collection"]]["sts"] - run["after"]["sts"] for run in made]
    for run in made:
        gain = run["after"]["ndcg@10"] - starts[run["collection"]]["ndcg@10"]
        by_collection.setdefault(run["collection"], []).append(gain)
    means = [mean(values) for values in by_collection.values()]
    least = min((value for values in by_collection.values() for value in values), default=0.0)
    with_words = [run["differences"]["hybrid - start"][0] for run in made]
    return {
        "mean": f"{mean(means):.1f}",
        "from": f"{min(means):.1f}",
        "to": f"{max(means):.1f}",
        "least": f"{least:.1f}",
        "hybrid": f"{mean(with_words):.1f}",
        "seeds": min(len(values) for values in by_collection.values()),
        "collections": len(means),
        "sts_start": f"{mean(run['sts'] for run in starts.values()):.2f}",
        "sts": f"{mean(losses):.1f}",
        "sts_most": f"{max(losses):.2f}",
        "seconds": between([run["seconds"] for run in made if run["seconds"] is not None]),
    }


def between(seconds: Sequence[float]) -> str:
    """The shortest and the longest time; those of interrupted runs are not known."""
    return f"{min(seconds):.0f} to {max(seconds):.0f}" if seconds else "an unknown number of"


def hybrid(runs: Sequence[Run]) -> dict[str, Any]:
    """How hybrid search compares with the better of its parts over all models, adapted and not."""
    pairs = [run["differences"]["hybrid - better part"] for run in runs]
    return {
        "models": len(pairs),
        "mean": f"{mean(value for value, *_ in pairs):.1f}",
        "lower": sum(value < 0 for value, *_ in pairs),
        "above": sum(len(ends) == 2 and ends[0] > 0 for _, *ends in pairs),
        "below": sum(len(ends) == 2 and ends[1] < 0 for _, *ends in pairs),
        "over_vectors": f"{mean(run['after']['hybrid'] - run['after']['ndcg@10'] for run in runs):.1f}",
    }


def agreement(runs: Sequence[Run], pairs: str) -> dict[str, Any]:
    """What a run's own questions said it gained, and what the test queries say; empty without runs."""
    made = trained(runs, pairs=pairs)
    if not made:
        return {}
    own = [max(run["scores"].values()) - run["scores"]["0"] for run in made]
    true = [run["differences"]["ndcg@10 - start"][0] for run in made]
    ends = [run["differences"]["ndcg@10 - start"][1:] for run in made]
    return {
        "runs": len(made),
        "kept": sum(gain > 0 for gain in own),
        "wrong": sum(gain > 0 >= truth for gain, truth in zip(own, true, strict=True)),
        "better": sum(bool(interval) and interval[0] > 0 for interval in ends),
        "own": f"{mean(own):.1f}",
        "true": f"{mean(true):.1f}",
        "off": f"{mean(abs(gain - truth) for gain, truth in zip(own, true, strict=True)):.1f}",
        "most": f"{max(abs(gain - truth) for gain, truth in zip(own, true, strict=True)):.1f}",
    }


def below_text(runs: Sequence[Run], model: str) -> list[str]:
    """The collections on which the mean with pairs is below the mean of the text alone, with the difference."""
    below = []
    for name in ORDER:
        text, pairs = (
            [run["after"]["ndcg@10"] for run in trained(runs, collection=name, model=model, pairs=which)]
            for which in ("", "all")
        )
        if text and pairs and (loss := mean(pairs) - mean(text)) < 0:
            below.append(f"{TITLES.get(name, name)} ({loss:+.1f})")
    return below


def made_on(runs: Sequence[Run]) -> str:
    """The machines, each with the commits and the version of torch of its runs."""
    commits: dict[tuple[str, str], set[str]] = {}
    for run in runs:
        commits.setdefault((run["machine"], run["torch"]), set()).add(run["commit"])
    return "; ".join(
        f"{machine} (commit {', '.join(sorted(of_it))}; torch {torch})"
        for (machine, torch), of_it in sorted(commits.items())
    )


def page(runs: Sequence[Run]) -> str:
    """The page in Markdown."""
    models = sorted({run["model"] for run in runs}, key=lambda name: (name != "opencse-mini", name))
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        models={
            model: {
                "table": table(runs, model),
                "text": gains(runs, model, ""),
                "pairs": gains(runs, model, "all"),
                "below": below_text(runs, model),
            }
            for model in models
        },
        below_start=sum(run["differences"]["ndcg@10 - start"][0] < 0 for run in trained(runs)),
        hybrid=hybrid(runs),
        text=agreement(runs, ""),
        pairs=agreement(runs, "all"),
        made=made_on(trained(runs)),
        number_of=number_of,
        date=max(run["date"] for run in runs),
    )


def main() -> None:
    """Gathers the runs of the study, if one is given, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", type=Path)
    parser.add_argument("--machine", default="", help="processor, instruction sets and threads, with --study")
    options = parser.parse_args()
    runs = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.is_file() else []
    if options.study is not None:
        both = {key_of(run): run for run in [*runs, *gather(options.study, options.machine)]}
        runs = [both[key] for key in sorted(both)]
        save_json(RECORD, runs)
    save_text(PAGE, page(runs))


if __name__ == "__main__":
    main()
