"""The scores of systems at the learning rate that is best for each, for the pages of the papers' tables."""

from __future__ import annotations

from comparisons import Comparison


def at_best_rates(tuned: Comparison) -> Comparison:
    """The scores by recipe; ``tuned`` is what `opencse compare --tune training.learning_rate=...` made."""
    return Comparison({**tuned.record, "scores": {named(run)[0]: seeds for run, seeds in tuned.scores.items()}})


def best_rates(tuned: Comparison) -> dict[str, str]:
    """The rate that was best for each recipe."""
    return dict(named(run) for run in tuned.scores)


def by_rate(rates: Comparison) -> dict[str, dict[str, float]]:
    """The scores at the seed of the choice, by recipe and rate, the lowest first; ``rates`` is the one in tuning/."""
    tried: dict[str, dict[str, float]] = {}
    for run, seeds in rates.scores.items():
        recipe, rate = named(run)
        tried.setdefault(recipe, {})[rate] = next(iter(seeds.values()))
    return {recipe: dict(sorted(scores.items(), key=lambda item: float(item[0]))) for recipe, scores in tried.items()}


def named(run: str) -> tuple[str, str]:
    """Recipe and learning rate of a run of a grid."""
    recipe, _, rate = run.removesuffix(")").partition(" (learning_rate=")
    return recipe, rate
