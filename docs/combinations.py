"""Compares several methods together with the best alone, from two starts: docs/results/combinations.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from best_rates import at_best_rates, best_rates
from comparisons import BASE, Comparison, markdown
from templates import filled

from opencse.statistics import brief, paired_seeds

UNTRAINED = 0
"""In place of the seed of a start under a transform."""


def combinations_page(parts: Mapping[str, Comparison], published: Mapping[str, Any]) -> str:
    """The page in Markdown; ``parts`` are comparisons by the names of build_papers.py."""
    return filled(
        "combinations.md.jinja",
        search=searched(parts["search"]) if "search" in parts else None,
        without_head=without_head(parts, published),
        two_starts=two_starts(parts, published) if "five_layers" in parts else None,
        best_rate=over_best_rate(parts, published)
        if "best_rates" in parts and "systems_transformed" in parts
        else None,
        made=parts["systems"].made(published["machines"]["systems"]),
    )


def searched(search: Comparison) -> list[tuple[str, str]]:
    """The recipes of the search for a combination and their scores at its one seed, the best first."""
    scores = {name: next(iter(seeds.values())) for name, seeds in search.scores.items()}
    return [(name, f"{scores[name]:.2f}") for name in sorted(scores, key=lambda name: -scores[name])]


def without_head(parts: Mapping[str, Comparison], published: Mapping[str, Any]) -> dict[str, str] | None:
    """Systems with and without their training head from both starts, and the best training; None where none was run."""
    sts, second = parts["systems"], parts.get("five_layers")
    without = {name: f"{name}:{published['without_head']['preset']}" for name in published["without_head"]["systems"]}
    rows = [
        [f"`{name}`", *head_cells(sts, name, bare), *(head_cells(second, name, bare) if second else [])]
        for name, bare in without.items()
        if bare in sts.scores
    ]
    if not rows:
        return None
    best = max((bare for bare in without.values() if bare in sts.scores), key=lambda name: sts.average(name))
    single = max((name for name in published["systems"] if name in sts.scores), key=lambda name: sts.average(name))
    gain = paired_seeds(sts.scores[best], sts.scores[single])
    columns = ["with its head", "without", "difference"]
    head = ["", *columns, *([f"five layers: {columns[0]}", *columns[1:]] if second else [])]
    return {
        "table": markdown(head, rows),
        "gain": f"`{best}` is {brief(gain)} above `{single}` with its head ({gain.over()})",
    }


def head_cells(scores: Comparison, name: str, bare: str) -> list[str]:
    """A system with its training head, without it, and the difference; empty where it was not run from this start."""
    pair = scores.difference(bare, name)
    return ["", "", ""] if pair is None else [scores.mean(name), scores.mean(bare), f"{brief(pair)}, {pair.over()}"]


def two_starts(parts: Mapping[str, Comparison], published: Mapping[str, Any]) -> dict[str, str]:
    """The combination and its parts on both starts, and its gain over the best single system of each."""
    combined = published["two_starts"]
    rows_in_words: Mapping[str, str] = combined["rows"]
    with_transforms = [with_transformed(parts, name) for name in ("systems", "five_layers")]
    rows = [["the start", *(f"{one.start:.2f}" for one in with_transforms)]]
    rows += [[label, *(one.mean(name) for one in with_transforms)] for name, label in rows_in_words.items()]
    gains = [
        f"{rows_in_words[name]}: " + " and ".join(over_best_single(one, name, combined) for one in with_transforms)
        for name in combined["combinations"]
    ]
    return {"table": markdown(["", "six layers", "five layers"], rows), "gains": "; ".join(gains)}


def over_best_single(one: Comparison, combination: str, combined: Mapping[str, Any]) -> str:
    """A combination's gain over the best single system from the same start; a start has one score for all seeds."""
    best = max(combined["single"], key=lambda name: one.average(name))
    scores, single = one.scores[combination], one.scores[best]
    if UNTRAINED in single:
        single = dict.fromkeys(scores, single[UNTRAINED])
    gain = paired_seeds(scores, single)
    return f"{brief(gain)} above {combined['rows'][best]} ({gain.over()})"


def over_best_rate(parts: Mapping[str, Comparison], published: Mapping[str, Any]) -> dict[str, str]:
    """Gains of the combinations, trained at the studies' rate, over the best single system at the rate best for it."""
    singles, here = at_best_rates(parts), with_transformed(parts, "systems")
    name = max((name for name in (BASE, *published["systems"]) if name in singles.scores), key=singles.average)
    gains = []
    for combination in (*published["two_starts"]["combinations"], "esimcse++:no-mlp"):
        gain = paired_seeds(here.scores[combination], singles.scores[name])
        gains.append(f"{published['two_starts']['rows'].get(combination, f'`{combination}` alone')} {brief(gain)}")
    return {"single": name, "rate": best_rates(parts)[name], "mean": singles.mean(name), "gains": ", ".join(gains)}


def with_transformed(parts: Mapping[str, Comparison], name: str) -> Comparison:
    """A comparison, and its encoders under transforms as further rows."""
    plain, transformed = parts[name], parts[f"{name}_transformed"]
    return Comparison({**plain.record, "scores": {**plain.record["scores"], **transformed.record["scores"]}})
