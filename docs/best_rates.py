"""The scores of systems at the learning rate that is best for each, for the pages of the papers' tables."""

from __future__ import annotations

from collections.abc import Mapping

from comparisons import Comparison

STUDY_RATE = "3e-5"
"""The learning rate of benchmarks/studies/papers.toml."""


def at_best_rates(parts: Mapping[str, Comparison]) -> Comparison:
    """The scores of the systems that were run at their best rate; ``parts`` are by the names of build_papers.py."""
    scores = {recipe: scores_at(parts, recipe, rate) for recipe, rate in best_rates(parts).items()}
    return Comparison({**parts["best_rates"].record, "scores": {name: runs for name, runs in scores.items() if runs}})


def best_rates(parts: Mapping[str, Comparison]) -> dict[str, str]:
    """The rate with the highest dev score of each recipe."""
    return {recipe: max(scores, key=lambda rate: scores[rate]) for recipe, scores in dev_by_rate(parts).items()}


def dev_by_rate(parts: Mapping[str, Comparison]) -> dict[str, dict[str, float]]:
    """Dev scores at the one seed of the search, by recipe and learning rate; the studies' own rate is in the search."""
    tried: dict[str, dict[str, float]] = {}
    for name, seeds in parts["rates"].scores.items():
        recipe, rate = name.removesuffix(")").split(" (learning_rate=")
        tried.setdefault(recipe, {})[rate] = next(iter(seeds.values()))
    found = parts["search_dev"].scores if "search_dev" in parts else {}
    for recipe, by_rate in tried.items():
        if STUDY_RATE not in by_rate and recipe in found:
            by_rate[STUDY_RATE] = next(iter(found[recipe].values()))
    return tried


def scores_at(parts: Mapping[str, Comparison], recipe: str, rate: str) -> dict[int, float]:
    """A recipe's scores at a rate by seed; empty where it was not run."""
    if rate == STUDY_RATE:
        return parts["systems"].scores.get(recipe, {})
    return parts["best_rates"].scores.get(f"{recipe} (learning_rate={rate})", {})
