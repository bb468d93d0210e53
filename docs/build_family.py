"""Writes docs/results/family.md: every system without labels from one start, compared with what its paper reports.

    python docs/build_family.py [--family FOLDER]

FOLDER is that of the comparison of benchmarks/studies/family.toml. Its scores are first put into
docs/results/records/family.json; the page is docs/family.md.jinja, filled from that file. The published averages are
those of the recipes' presets for BERT-base.
"""

from __future__ import annotations

import argparse
import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
from build_papers import BASE, DEV, RESULTS, STS, Comparison, Scores, markdown, of_paper, scores_of
from templates import filled

from opencse.evaluation import spearman
from opencse.recipes.recipe import resolve_recipe
from opencse.records import save_json, save_text
from opencse.statistics import PairedSeeds

PAGE, RECORD = RESULTS / "family.md", RESULTS / "records" / "family.json"
STUDY = RESULTS.parents[1] / "benchmarks" / "studies" / "family.toml"


def page(scores: Scores) -> str:
    """The page in Markdown, of the systems with as many seeds as the base has."""
    sts, dev = (Comparison(complete(scores[part])) for part in ("sts", "dev"))
    ranked = sorted(sts.scores, key=lambda name: -mean_of(sts, name))
    adjusted = sts.adjusted(ranked, BASE)
    published = {name: of_paper({"metric": STS}, name) for name in ranked}
    rows = [["the start", "", "", f"{sts.start:.2f}", "", f"{dev.start:.2f}"]]
    rows += [
        [
            f"`{name}`",
            resolve_recipe(name).recipe.family or "",
            "" if (value := published[name]) is None else f"{value:.2f}",
            sts.mean(name),
            gain_in_words(adjusted.get(name)),
            dev.mean(name),
        ]
        for name in ranked
    ]
    both = [(value, mean_of(sts, name)) for name, value in published.items() if value is not None]
    head = ["system", "family", "published", "seven STS tasks", f"above {BASE}", "STS-B dev"]
    above = [name for name, pair in adjusted.items() if pair.direction() == "better"]
    below = [name for name, pair in adjusted.items() if pair.direction() == "worse"]
    study = tomllib.loads(STUDY.read_text(encoding="utf-8"))
    return filled(
        "family.md.jinja",
        table=markdown(head, rows),
        systems=len(ranked),
        missing=listed([name for name in study["recipes"] if name not in ranked]),
        seeds=min(len(seeds) for seeds in sts.scores.values()),
        start=f"{sts.start:.2f}",
        base_name=BASE,
        order=f"{spearman(*np.array(both, dtype=np.float64).T):+.2f}",
        compared=len(both),
        above=listed(above),
        highest=listed(ranked[:3]),
        below=listed(below),
        made=sts.made(scores["machine"]),
    )


def complete(part: dict[str, Any]) -> dict[str, Any]:
    """The scores without systems of which some seeds are missing."""
    by_recipe = part["scores"]
    seeds = len(by_recipe[BASE])
    return {**part, "scores": {name: scores for name, scores in by_recipe.items() if len(scores) >= seeds}}


def mean_of(comparison: Comparison, name: str) -> float:
    """The mean over seeds."""
    values = comparison.scores[name].values()
    return sum(values) / len(values)


def gain_in_words(pair: PairedSeeds | None) -> str:
    """The difference from the base, with a star where p after Holm is below .05."""
    if pair is None:
        return ""
    star = " \\*" if pair.direction() else ""
    return f"{pair.difference:+.2f}{star}"


def listed(names: list[str]) -> str:
    """Names in one line; ``none``."""
    return ", ".join(f"`{name}`" for name in names) or "none"


def main() -> None:
    """Gathers the scores of the folder, if one is given, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", type=Path)
    parser.add_argument("--machine", help="processor and instruction sets, with --family")
    options = parser.parse_args()
    if options.family is not None:
        parts = {"sts": scores_of(options.family, STS), "dev": scores_of(options.family, DEV)}
        save_json(RECORD, {"machine": options.machine or "", **parts})
    save_text(PAGE, page(json.loads(RECORD.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
