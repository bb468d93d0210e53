"""Chooses the values of each recipe at seeds of their own, for ``opencse compare --tune``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from opencse.errors import UserError
from opencse.evaluation.sts.dev import StsDev
from opencse.evaluation.suites import suite_named
from opencse.studies.comparison import Comparison, Tuned
from opencse.studies.grid import Variant, best_of_each, parse_grid


def suite_of_tuning(metric: str, suites: Sequence[str]) -> str:
    """The one of ``suites`` that has the score ``metric``.

    Raises:
        UserError: if none has.
    """
    suite = next((name for name in suites if suite_named(name).key() == metric.partition(".")[0]), None)
    if suite is None:
        raise UserError(
            f"--tune chooses by {metric}, which is not of the suites {', '.join(suites)}; name a score of theirs by "
            f"--tune-metric, or for STS-B dev add the suite: --suites {StsDev.name},{','.join(suites)}"
        )
    return suite


def best_values(
    tried: Mapping[str, Variant], runs: Comparison, seeds: Sequence[int]
) -> tuple[dict[str, Variant], Tuned]:
    """Each recipe with the values of the highest score, and the scores; means over seeds and starts."""
    scores: dict[str, list[float]] = {}
    for row in runs.rows:
        scores.setdefault(row.recipe, []).extend(row.scores.values())
    means = {name: sum(values) / len(values) for name, values in scores.items()}
    best = best_of_each(tried, means)
    return best, Tuned(metric=runs.metric, seeds=list(seeds), best={name: round(means[name], 4) for name in best})


def at_an_end(variant: Variant, tune: Iterable[str]) -> str:
    """Advice where a value that was chosen is the smallest or the largest number that was tried; else nothing."""
    ends = []
    for key, texts in parse_grid(tune).items():
        try:
            numbers = [float(text) for text in texts]
        except ValueError:
            continue
        if len(numbers) > 1 and float(variant.values[key]) in (min(numbers), max(numbers)):
            ends.append(f"{key}={variant.values[key]}")
    return f"; {', '.join(ends)} is at the end of what was tried: try values beyond it" if ends else ""
