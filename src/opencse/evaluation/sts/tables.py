"""Tables of STS scores: by task, by subset, and by the difference in length."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING

from opencse.errors import require_known
from opencse.evaluation.sts.data import TASKS
from opencse.evaluation.sts.result import Aggregation, Correlation, StsResult, StsScores
from opencse.evaluation.table import ABSENT, MODEL, Cell, TableRow, results_table

if TYPE_CHECKING:
    from rich.table import Table

HALVES = ("up to 3", "over 3")


def sts_table(
    results: Mapping[str, StsResult],
    aggregation: Aggregation = "all",
    correlation: Correlation = "spearman",
    subsets: bool = False,
) -> Table:
    """Lays out correlations x 100 with two decimals; ``-`` where there is none.

    Args:
        results: by label, in the order to show.
        aggregation: ``all``, ``mean`` or ``wmean``; the average is of the seven values shown.
        correlation: ``spearman`` or ``pearson``.
        subsets: False: one row per model, one column per task, and Avg.; True: one row per subset, one column per
            model (``aggregation`` is not used).

    Returns:
        A table; ``*`` marks a value over another number of pairs than published.

    Raises:
        UserError: for an unknown aggregation or correlation.
    """
    require_known(aggregation, typing.get_args(Aggregation), "aggregation")
    require_known(correlation, typing.get_args(Correlation), "correlation")
    if subsets:
        return _by_subset(results, correlation)
    rows: list[TableRow] = []
    for label, result in results.items():
        scores = [result.sts.tasks.get(key) for key in TASKS]
        cells = [Cell(None) if one is None else Cell(one.by(correlation, aggregation), one.complete) for one in scores]
        rows.append([label, *cells, Cell(result.sts.mean_over_tasks(correlation, aggregation))])
    titles = [task.title for task in TASKS.values()]
    title = f"STS, {correlation.capitalize()} x 100, {aggregation}"
    return results_table(title, [MODEL], [*titles, "Avg."], rows, data="number of pairs")


def _by_subset(results: Mapping[str, StsResult], correlation: Correlation) -> Table:
    rows: list[TableRow] = []
    for key, task in TASKS.items():
        scores = [result.sts.tasks.get(key) for result in results.values()]
        for name in task.subsets if any(scores) else ():
            parts = [(score.complete, score.subsets.get(name)) if score else (True, None) for score in scores]
            sizes = sorted({part.n for _, part in parts if part is not None})
            cells = [Cell(None if part is None else part.by(correlation), complete) for complete, part in parts]
            rows.append([task.title, name, "/".join(f"{n:,}" for n in sizes) or ABSENT, *cells])
    title = f"STS by subset, {correlation.capitalize()} x 100"
    headers = ["Pairs", *results]
    return results_table(title, ["Task", "Subset"], headers, rows, data="number of pairs", grouped=True)


def length_table(results: Mapping[str, StsResult]) -> Table:
    """Lays out Spearman x 100 of pairs whose lengths differ by up to 3 words, and of the others (ESimCSE, Tables 1, 7).

    Args:
        results: by label, in the order to show.

    Returns:
        Two rows per model and one column per task (those that some result has), then the plain mean over the model's
        tasks; ``-`` where there is no value, and in the mean if any of the model's tasks has none. The first two
        rows are the numbers of pairs.
    """
    keys = [key for key in TASKS if any(key in result.sts.tasks for result in results.values())]
    sizes: dict[str, dict[str, set[int]]] = {half: {key: set() for key in keys} for half in HALVES}
    rows: list[TableRow] = []
    for label, result in results.items():
        splits = [result.sts.tasks[key].by_length if key in result.sts.tasks else None for key in keys]
        means = mean_by_length(result.sts) or (None, None)
        for number, half in enumerate(HALVES):
            scores = [None if split is None else (split.up_to_3, split.over_3)[number] for split in splits]
            for key, score in zip(keys, scores, strict=True):
                sizes[half][key] |= set() if score is None else {score.n}
            cells = [Cell(None if score is None else score.spearman) for score in scores]
            rows.append([label, half, *cells, Cell(means[number])])
    pairs: list[TableRow] = [
        ["pairs", half, *("/".join(f"{n:,}" for n in sorted(counts)) or ABSENT for counts in by_key.values()), ABSENT]
        for half, by_key in sizes.items()
    ]
    titles = [TASKS[key].title for key in keys]
    title = "STS by difference in length (words), Spearman x 100"
    return results_table(title, [MODEL, "Difference"], [*titles, "Avg."], pairs + rows, grouped=True)


def mean_by_length(scores: StsScores) -> tuple[float, float] | None:
    """Averages Spearman x 100 over the tasks: up to 3 words, over 3; None unless every task has both."""
    splits = [task.by_length for task in scores.tasks.values()]
    known = [split for split in splits if split is not None]
    if not known or len(known) != len(splits):
        return None
    return (
        sum(split.up_to_3.spearman for split in known) / len(known),
        sum(split.over_3.spearman for split in known) / len(known),
    )
