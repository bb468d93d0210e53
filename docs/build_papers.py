"""Writes docs/results/papers.md, the papers' tables compared with ours, and its pictures.

    python docs/build_papers.py [--systems FOLDER] [--combination FOLDER] [--second FOLDER] [--sweeps FOLDER]

The folders are those of the comparisons of benchmarks/studies/papers.toml, papers-combination.toml, papers.toml with
encoder.layers=3, and papers-sweeps.toml. Their scores are first put into docs/results/records/papers-scores.json; runs
of the ablations are added to it, and a run that it already has is replaced. The page is docs/papers.md.jinja, filled
from that file and from docs/papers.toml, which lists the published tables and a verdict on each.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np

from opencse.analysis.figures import standalone
from opencse.analysis.figures.lines import lines
from opencse.evaluation import spearman
from opencse.recipes.recipe import resolve_recipe
from opencse.records import save_json, save_text
from opencse.statistics import PairedSeeds, after_holm, brief, paired_bootstrap, paired_seeds, summary
from opencse.studies.record import StudyRecord
from opencse.studies.running import read_arrays
from opencse.studies.study import folder_name

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PAGE, SCORES, FIGURES = RESULTS / "papers.md", RESULTS / "records" / "papers-scores.json", RESULTS / "figures"
TEMPLATE, PUBLISHED = HERE / "papers.md.jinja", HERE / "papers.toml"
DEV, STS, BASE = "dev.stsb", "sts.average", "simcse"
Scores = Mapping[str, Any]


def gather(
    systems: Path | None, combination: Path | None, sweeps: Path | None, second: Path | None = None
) -> dict[str, Any]:
    """The scores of the comparisons whose folders are given."""
    scores: dict[str, Any] = {}
    for name, folder in (("systems", systems), ("combination", combination), ("second", second)):
        if folder is not None:
            scores |= {name: scores_of(folder, STS), f"{name}_dev": scores_of(folder, DEV)}
    if sweeps is not None:
        scores["sweeps"] = scores_of(sweeps, DEV)
    return scores


def scores_of(folder: Path, metric: str) -> dict[str, Any]:
    """One metric of a comparison: the start's score, and those of the runs by recipe and seed."""
    records = [StudyRecord.read(path.parent) for path in sorted(folder.glob("runs/*/*/*/record.json"))]
    runs = [record for record in records if record is not None and metric in record.results]
    starts = [StudyRecord.read(path.parent) for path in sorted(folder.glob("starts/*/*/record.json"))]
    start = next(record for record in starts if record is not None)
    by_recipe: dict[str, dict[int, float]] = {}
    for run in runs:
        if run.recipe is not None and run.seed is not None:
            by_recipe.setdefault(run.recipe, {})[run.seed] = round(run.results[metric], 4)
    environment = start.environment.model_dump(mode="json")
    return {
        "metric": metric,
        "start": round(start.results[metric], 4),
        "scores": {name: dict(sorted(seeds.items())) for name, seeds in sorted(by_recipe.items())},
        "over_pairs": over_pairs(folder, start.start, by_recipe) if metric == DEV else {},
        "environment": {key: environment[key] for key in ("python", "torch", "transformers") if environment.get(key)},
        "date": f"{max(run.created for run in runs):%Y-%m-%d}",
    }


def over_pairs(folder: Path, start: str, by_recipe: Scores) -> dict[str, dict[int, list[float]]]:
    """95% intervals of each model's score minus its base's over other sentence pairs (STS-B dev), by seed."""
    published = tomllib.loads(PUBLISHED.read_text(encoding="utf-8"))
    compared = {(name, BASE) for part in ("systems", "combination") for name in published[part]}
    compared |= {(recipe, table["base"]) for table in published["tables"] for _, recipe in table["rows"]}
    intervals: dict[str, dict[int, list[float]]] = {}
    for recipe, base in sorted(pair for pair in compared if pair[0] != pair[1]):
        for seed in sorted(by_recipe.get(recipe, {}).keys() & by_recipe.get(base, {}).keys()):
            runs = [folder / "runs" / folder_name(start) / folder_name(name) / str(seed) for name in (recipe, base)]
            a, b = (read_arrays(run, "dev") for run in runs)
            if a and b:
                interval = paired_bootstrap(a["stsb.gold"], a["stsb.cosine"], b["stsb.cosine"]).interval
                if interval is not None:
                    intervals.setdefault(f"{recipe} against {base}", {})[seed] = [round(end, 2) for end in interval]
    return intervals


def added(old: Scores, new: Scores) -> dict[str, Any]:
    """The scores of both, by recipe and seed; the new one where a run is in both."""
    both = {**old, "date": max(old["date"], new["date"])}
    for key in ("scores", "over_pairs"):
        joined: dict[str, dict[int, Any]] = {}
        for part in (old, new):
            for name, seeds in part[key].items():
                joined.setdefault(name, {}).update({int(seed): value for seed, value in seeds.items()})
        both[key] = {name: dict(sorted(seeds.items())) for name, seeds in sorted(joined.items())}
    return both


class Comparison:
    """The scores of one comparison, and what can be computed from them."""

    def __init__(self, record: Scores) -> None:
        """``record``: as `scores_of` makes it."""
        self.record, self.start = record, float(record["start"])
        self.scores: dict[str, dict[int, float]] = {
            name: {int(seed): value for seed, value in seeds.items()} for name, seeds in record["scores"].items()
        }

    def difference(self, recipe: str, base: str) -> PairedSeeds | None:
        """A recipe minus another, at the seeds that both have; None where one of them was not run."""
        if recipe not in self.scores or base not in self.scores:
            return None
        return paired_seeds(self.scores[recipe], self.scores[base])

    def gain(self, recipe: str, base: str) -> float:
        """The mean of that difference."""
        difference = self.difference(recipe, base)
        if difference is None:
            raise RuntimeError(f"{recipe} or {base} has no scores")
        return difference.difference

    def adjusted(self, recipes: Sequence[str], base: str) -> dict[str, PairedSeeds]:
        """Each of them except ``base`` minus it, with p after Holm over all."""
        pairs = {name: self.difference(name, base) for name in recipes if name != base}
        return after_holm({name: pair for name, pair in pairs.items() if pair is not None})

    def mean(self, recipe: str) -> str:
        """Mean, and standard deviation where there are several seeds."""
        values = summary(list(self.scores[recipe].values()))
        return f"{values.mean:.2f}" if values.sd is None else f"{values.mean:.2f} ± {values.sd:.2f}"

    def over_pairs(self, recipe: str, base: str) -> str:
        """At how many seeds the model differs for other sentence pairs too: ``2 above of 3``, ``none of 1``."""
        intervals = list(self.record.get("over_pairs", {}).get(f"{recipe} against {base}", {}).values())
        above, below = sum(low > 0 for low, _ in intervals), sum(high < 0 for _, high in intervals)
        words = [f"{count} {word}" for count, word in ((above, "above"), (below, "below")) if count]
        return f"{' and '.join(words) or 'none'} of {len(intervals)}" if intervals else ""

    def made(self, machine: str) -> str:
        """When the comparison was made, with which versions and where."""
        versions = ", ".join(f"{key} {value}" for key, value in self.record["environment"].items())
        return f"{self.record['date']}, {versions}, {machine}, one thread"

    def known(self, table: Mapping[str, Any]) -> list[tuple[str, str]]:
        """The rows of a published table that have scores; none where its base has none."""
        rows = [(label, recipe) for label, recipe in table["rows"] if recipe in self.scores]
        return rows if table["base"] in self.scores else []


def of_paper(table: Mapping[str, Any], recipe: str) -> float | None:
    """The published score of a row; None where no number was printed."""
    if recipe in table.get("published", {}):
        return float(table["published"][recipe])
    metric, resolved = table.get("metric", DEV), resolve_recipe(recipe)
    presets = resolved.recipe.presets
    names = [name for name in resolved.presets if name in presets] or ["bert-base"] * ("bert-base" in presets)
    return next((presets[name].expected[metric] for name in reversed(names) if metric in presets[name].expected), None)


def page(scores: Scores, published: Mapping[str, Any]) -> str:
    """The page in Markdown."""
    parts = {name: Comparison(record) for name, record in scores.items()}
    sweeps, machines = parts["sweeps"], published["machines"]
    tables = [table for table in published["tables"] if len(sweeps.known(table)) > 1]
    values: dict[str, Any] = {
        "start": f"{parts['systems'].start:.2f}",
        "dev_start": f"{parts['systems_dev'].start:.2f}",
        "systems": systems_table(parts, published["systems"]),
        "ablations": ablations_table(sweeps, tables),
        "missing": "; ".join(table["title"] for table in published["tables"] if table not in tables),
    }
    titles = {"systems": "Systems", "sweeps": "Ablations"}
    if "combination" in parts:
        both, name = parts["combination"], list(published["combination"])[-1]
        values["combination"] = {"gain": brief(both.adjusted(list(both.scores), BASE)[name])}
        values["combination"]["seeds"] = len(both.scores[name])
        titles["combination"] = "Combination"
    if "second" in parts:
        second, name = parts["second"], list(published["combination"])[-1]
        recipes = {"simcse": "simcse", "sscl": "sscl", "combination": name}
        values["second"] = {key: second.mean(recipe) for key, recipe in recipes.items()} | {
            "start": f"{second.start:.2f}"
        }
        titles["second"] = "Three layers"
    values["made"] = " ".join(
        f"{title}: {parts[name].made(machines['ablations' if name == 'sweeps' else name])}."
        for name, title in titles.items()
    )
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False)
    optional = {"combination": None, "second": None}
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(optional | values)


def systems_table(parts: Mapping[str, Comparison], systems: Mapping[str, Sequence[float]]) -> str:
    """One row per system: its scores, its gain over the start and over SimCSE, and the published gain."""
    sts, dev = parts["systems"], parts["systems_dev"]
    names = [name for name in systems if name in sts.scores]
    adjusted = sts.adjusted(names, BASE)
    start = after_holm(
        {name: paired_seeds(sts.scores[name], dict.fromkeys(sts.scores[name], sts.start)) for name in names}
    )
    rows = [["the start", "", f"{dev.start:.2f}", "", f"{sts.start:.2f}", "", "", "", ""]]
    for name in names:
        pair, numbers = adjusted.get(name), systems[name]
        gain = numbers[0] - numbers[1] if numbers else None
        cells = [name + (" (ours)" if name == "queue-dcl" else ""), str(len(sts.scores[name])), dev.mean(name)]
        cells += [dev.over_pairs(name, BASE), sts.mean(name), brief(start[name]), "" if pair is None else brief(pair)]
        cells += ["" if gain is None else f"{gain:+.2f}", "" if pair is None or gain is None else holds(pair)]
        rows.append(cells)
    head = [
        "recipe",
        "seeds",
        "STS-B dev",
        "over other pairs",
        "seven STS tasks",
        "against the start",
        "against simcse",
    ]
    return markdown([*head, "published", "holds here"], rows)


def holds(pair: PairedSeeds) -> str:
    """Whether a positive published gain was found too."""
    p = pair.decisive_p()
    if p is None or p >= 0.05:
        return "not shown"
    return "yes" if pair.difference > 0 else "no, the other way"


def ablations_table(sweeps: Comparison, tables: Sequence[Mapping[str, Any]]) -> str:
    """One row per published table: where the best value is, how far the order agrees, and the verdict."""
    rows = []
    for table in tables:
        known = sweeps.known(table)
        pairs = [(of_paper(table, recipe), sweeps.gain(recipe, table["base"])) for _, recipe in known]
        numbers = [(theirs, ours) for theirs, ours in pairs if theirs is not None]
        order = f"{spearman(*np.array(numbers, dtype=np.float64).T):+.2f}" if len(numbers) > 2 else ""
        gains = [sweeps.gain(recipe, table["base"]) for _, recipe in known]
        best = known[gains.index(max(gains))][0]
        printed = [(value, label) for label, recipe in known if (value := of_paper(table, recipe)) is not None]
        theirs = max(printed)[1] if len(printed) > 1 else "no numbers"
        title = f"[{table['title']}](figures/papers-{table['key']}.svg)"
        rows.append([title, theirs, best, order, f"{len(known)} of {len(table['rows'])}", table["verdict"]])
    return markdown(["table", "best, published", "best, here", "order agrees (Spearman)", "rows run", "verdict"], rows)


def pictures(scores: Scores, published: Mapping[str, Any]) -> dict[str, str]:
    """An SVG for each table that has results, by file name."""
    sweeps = Comparison(scores["sweeps"])
    drawn = {}
    for table in published["tables"]:
        rows, base = sweeps.known(table), table["base"]
        if len(rows) < 2:
            continue
        curves = {"here": [(float(index), sweeps.gain(recipe, base)) for index, (_, recipe) in enumerate(rows)]}
        zero = of_paper(table, base)
        printed = [(float(index), of_paper(table, recipe)) for index, (_, recipe) in enumerate(rows)]
        theirs = [(index, value - zero) for index, value in printed if value is not None and zero is not None]
        if len(theirs) > 1:
            curves["published"] = theirs
        ticks = [label.replace(", ", ",\n").replace(" ", "\n") for label, _ in rows]
        drawn[f"papers-{table['key']}.svg"] = standalone(
            lines(curves, table["title"], "", f"points above {base}", ticks=ticks)
        )
    return drawn


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rows])


def main() -> None:
    """Gathers the scores of the folders that are given, and writes page and pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("systems", "combination", "second", "sweeps"):
        parser.add_argument(f"--{name}", type=Path)
    folders = parser.parse_args()
    scores = json.loads(SCORES.read_text(encoding="utf-8"))
    if new := gather(folders.systems, folders.combination, folders.sweeps, folders.second):
        scores |= {part: added(scores["sweeps"], own) if part == "sweeps" else own for part, own in new.items()}
        save_json(SCORES, scores)
    published = tomllib.loads(PUBLISHED.read_text(encoding="utf-8"))
    save_text(PAGE, page(scores, published))
    for name, drawn in pictures(scores, published).items():
        save_text(FIGURES / name, drawn)


if __name__ == "__main__":
    main()
