"""Scores of a comparison's runs, as the pages of results read, test and print them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opencse.recipes.recipe import resolve_recipe
from opencse.statistics import PairedSeeds, after_holm, paired_seeds, summary
from opencse.studies.study import StudyRecord

RESULTS = Path(__file__).parent / "results"
FIGURES = RESULTS / "figures"
DEV, STS, BASE = "dev.stsb", "sts.average", "simcse"
Scores = Mapping[str, Any]


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
        "environment": {key: environment[key] for key in ("python", "torch", "transformers") if environment.get(key)},
        "date": f"{max(run.created for run in runs):%Y-%m-%d}",
    }


def added(old: Scores, new: Scores) -> dict[str, Any]:
    """The scores of both, by recipe and seed; the new one where a run is in both."""
    both = {**old, **({"date": max(old["date"], new["date"])} if "date" in old else {})}
    joined: dict[str, dict[int, Any]] = {}
    for part in (old, new):
        for name, seeds in part["scores"].items():
            joined.setdefault(name, {}).update({int(seed): value for seed, value in seeds.items()})
    both["scores"] = {name: dict(sorted(seeds.items())) for name, seeds in sorted(joined.items())}
    return both


class Comparison:
    """The scores of one comparison, and what can be computed from them."""

    def __init__(self, record: Scores) -> None:
        """``record``: as `scores_of` makes it."""
        self.record, self.start = record, float(record.get("start", math.nan))
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

    def average(self, recipe: str) -> float:
        """The mean over seeds."""
        return summary(list(self.scores[recipe].values())).mean

    def mean(self, recipe: str) -> str:
        """Mean, and standard deviation where there are several seeds."""
        values = summary(list(self.scores[recipe].values()))
        return f"{values.mean:.2f}" if values.sd is None else f"{values.mean:.2f} ± {values.sd:.2f}"

    def made(self, machine: str) -> str:
        """When the comparison was made, with which versions and where."""
        versions = ", ".join(f"{key} {value}" for key, value in self.record["environment"].items())
        return f"{self.record['date']}, {versions}, {machine}"

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


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rows])
