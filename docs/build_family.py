"""Writes docs/results/family.md: every system without labels from one start, compared with what its paper reports.

    python docs/build_family.py [--family FOLDER ...] [--machine TEXT]

The folders are those of the comparisons of benchmarks/studies/papers.toml, family.toml and family-templates.toml, which
have one start. Their scores are first added to docs/results/records/family.json; the page is docs/family.md.jinja,
filled from that file. The published averages are those of the recipes' presets for BERT-base. The record also has the
scores of an earlier comparison from another start, read at [CLS].
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from comparisons import BASE, RESULTS, STS, Comparison, Scores, added, markdown, of_paper, scores_of
from templates import filled

from opencse.evaluation import spearman
from opencse.numerals import number_of
from opencse.recipes.recipe import resolve_recipe
from opencse.records import save_json, save_text
from opencse.statistics import PairedSeeds

PAGE, RECORD = RESULTS / "family.md", RESULTS / "records" / "family.json"
STUDIES = [RESULTS.parents[1] / "benchmarks" / "studies" / name for name in ("family.toml", "family-templates.toml")]
PARTS = ("mean", "cls")
"""The comparisons from the two starts, by how they are read."""
LIKELY = 2.0
"""Points above the base from which a system with too few seeds for a test is named: more than seeds differ by."""


def page(scores: Scores) -> str:
    """The page in Markdown."""
    systems = systems_of_the_studies()
    first, second = (Comparison(only(scores[part], systems)) for part in PARTS)
    names = sorted(
        (name for name in systems if name in first.scores or name in second.scores),
        key=lambda name: (name not in first.scores, -(first if name in first.scores else second).average(name)),
    )
    gains = {part: one.adjusted(names, BASE) for part, one in zip(PARTS, (first, second), strict=True)}
    published = {name: of_paper({"metric": STS}, name) for name in names}
    rows = [["the start", "", "", "", f"{first.start:.2f}", "", "", f"{second.start:.2f}", ""]]
    rows += [
        [
            f"`{name}`",
            resolve_recipe(name).recipe.family or "",
            "" if (value := published[name]) is None else f"{value:.2f}",
            *cells(first, name, gains["mean"]),
            *cells(second, name, gains["cls"]),
        ]
        for name in names
    ]
    both = [(value, first.average(name)) for name in first.scores if (value := published[name]) is not None]
    head = [
        "system",
        "family",
        "published",
        "seeds",
        "by the mean",
        f"above {BASE}",
        "seeds",
        "at [CLS]",
        f"above {BASE}",
    ]
    return filled(
        "family.md.jinja",
        table=markdown(head, rows),
        missing=listed([name for name in systems if name not in names]),
        base_name=BASE,
        order=f"{spearman(*np.array(both, dtype=np.float64).T):+.2f}",
        compared=len(both),
        starts={part: summed_up(gains[part]) for part in PARTS},
        made={part: one.made(scores["machines"][part]) for part, one in zip(PARTS, (first, second), strict=True)},
    )


def cells(comparison: Comparison, name: str, gains: Mapping[str, PairedSeeds]) -> list[str]:
    """Seeds, mean and gain of a system; empty where it was not run."""
    if name not in comparison.scores:
        return ["", "", ""]
    return [str(len(comparison.scores[name])), comparison.mean(name), gain_in_words(gains.get(name))]


def summed_up(gains: Mapping[str, PairedSeeds]) -> dict[str, Any]:
    """What the systems of one start show: how many were tested, which are better and worse, which are not tested."""
    tested = {name: pair for name, pair in gains.items() if pair.decides()}
    return {
        "tested": number_of(len(tested), "system"),
        "better": listed([name for name, pair in tested.items() if pair.direction() == "better"]),
        "worse": listed([name for name, pair in tested.items() if pair.direction() == "worse"]),
        "untested": listed([name for name in gains if name not in tested]),
        "promising": listed([name for name, pair in gains.items() if name not in tested and pair.difference >= LIKELY]),
    }


def systems_of_the_studies() -> list[str]:
    """The recipes of the study files."""
    studies = [tomllib.loads(file.read_text(encoding="utf-8")) for file in STUDIES]
    return [BASE, *(name for study in studies for name in study["recipes"] if name != BASE)]


def only(part: dict[str, Any], systems: list[str]) -> dict[str, Any]:
    """The scores of these systems alone."""
    return {**part, "scores": {name: scores for name, scores in part["scores"].items() if name in systems}}


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
    parser.add_argument("--family", type=Path, nargs="+", default=[])
    parser.add_argument("--machine", help="processor and instruction sets, with --family")
    options = parser.parse_args()
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    for folder in options.family:
        record["mean"] = added(record["mean"], only(scores_of(folder, STS), systems_of_the_studies()))
        record["machines"]["mean"] = options.machine or record["machines"]["mean"]
    save_json(RECORD, record)
    save_text(PAGE, page(json.loads(RECORD.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    main()
