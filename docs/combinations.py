"""Compares several methods together with the best alone, from two starts, for docs/results/papers.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from best_rates import at_best_rates, best_rates
from comparisons import BASE, Comparison, markdown
from templates import filled

from opencse.statistics import brief, paired_seeds

UNTRAINED = 0
"""In place of the seed of a start under a transform."""


def combinations(parts: Mapping[str, Comparison], published: Mapping[str, Any]) -> str:
    """The section in Markdown; ``parts`` are comparisons by the names of build_papers.py."""
    return filled(
        "combinations.md.jinja",
        training=training_alone(parts, published),
        two_starts=two_starts(parts, published) if "five_layers" in parts else None,
    )


def training_alone(parts: Mapping[str, Comparison], published: Mapping[str, Any]) -> dict[str, str]:
    """Systems and combinations at the best rate of each from both starts, and the best combination's gain."""
    tuned = [parts["best_rates"], parts["five_layers_best_rates"]]
    rows = [["the start", *(cell for one in tuned for cell in ("", f"{one.start:.2f}", ""))]]
    for name in (BASE, *published["training_alone"]["single"], *published["training_alone"]["combinations"]):
        cells = [cell for one in tuned for cell in at_best_rate(one, name)]
        if any(cells):
            rows.append([f"`{name}`", *cells])
    columns = ["best rate", "seven STS tasks", "above `simcse`"]
    return {
        "table": markdown(["", *columns, *(f"five layers: {name}" for name in columns)], rows),
        "first": over_best_trained(tuned[0], published),
        "second": over_best_trained(tuned[1], published),
    }


def at_best_rate(tuned: Comparison, name: str) -> list[str]:
    """Rate, score and gain over SimCSE of a system; empty where it was not run."""
    here = at_best_rates(tuned)
    if name not in here.scores:
        return ["", "", ""]
    gain = "" if name == BASE else brief(paired_seeds(here.scores[name], here.scores[BASE]))
    return [best_rates(tuned)[name], here.mean(name), gain]


def over_best_trained(tuned: Comparison, published: Mapping[str, Any]) -> str:
    """The best combination at its best rate, and its difference from the best single system at its own."""
    here = at_best_rates(tuned)
    together = max((n for n in published["training_alone"]["combinations"] if n in here.scores), key=here.average)
    single = best_single(here, published)
    gain = paired_seeds(here.scores[together], here.scores[single])
    return f"`{together}` has {brief(gain)} over `{single}`, the best single system ({gain.over()})"


def best_single(here: Comparison, published: Mapping[str, Any]) -> str:
    """The best of the papers' systems."""
    systems: list[str] = [BASE, *published["systems"]]
    return max((name for name in systems if name in here.scores), key=here.average)


def two_starts(parts: Mapping[str, Comparison], published: Mapping[str, Any]) -> dict[str, str]:
    """The combination and its parts on both starts, and its gain over the best single system of each."""
    combined = published["two_starts"]
    rows_in_words: Mapping[str, str] = combined["rows"]
    with_transforms = [with_transformed(parts, name) for name in ("systems", "five_layers")]
    rows = [["the start", *(f"{one.start:.2f}" for one in with_transforms)]]
    for name, label in rows_in_words.items():
        rows.append([label, *(one.mean(name) if name in one.scores else "" for one in with_transforms)])
    gains = []
    for name in combined["combinations"]:
        over = [over_best_single(one, name, combined) for one in with_transforms]
        gains.append(f"{rows_in_words[name]}: from the first start {over[0]}, from the second {over[1]}")
    return {"table": markdown(["", "six layers", "five layers"], rows), "gains": "; ".join(gains)}


def over_best_single(one: Comparison, combination: str, combined: Mapping[str, Any]) -> str:
    """A combination's gain over the best single system with a transform, from the same start, which has one score."""
    best = max((name for name in combined["single"] if name in one.scores), key=one.average)
    scores, single = one.scores[combination], one.scores[best]
    if UNTRAINED in single:
        single = dict.fromkeys(scores, single[UNTRAINED])
    gain = paired_seeds(scores, single)
    return f"{brief(gain)} above {combined['rows'][best]} ({gain.over()})"


def with_transformed(parts: Mapping[str, Comparison], name: str) -> Comparison:
    """A comparison, and its encoders under transforms as further rows."""
    plain, transformed = parts[name], parts[f"{name}_transformed"]
    return Comparison({**plain.record, "scores": {**plain.record["scores"], **transformed.record["scores"]}})
