"""Results as a table for the terminal."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING

from opencse.errors import require_known
from opencse.evaluation.result import Aggregation, Correlation, StsResult
from opencse.evaluation.sts_data import TASKS

if TYPE_CHECKING:
    from rich.table import Table

ABSENT = "-"


def sts_table(
    results: Mapping[str, StsResult],
    aggregation: Aggregation = "all",
    correlation: Correlation = "spearman",
    subsets: bool = False,
) -> Table:
    """Correlations x 100 with two decimals; ``-`` where there is none.

    Args:
        results: by label, in the order to show.
        aggregation: ``all``, ``mean`` or ``wmean``; the average is of the seven values shown.
        correlation: ``spearman`` or ``pearson``.
        subsets: False: a row a model, a column a task, and Avg.; True: a row a subset, a column a model
            (``aggregation`` then plays no part).

    Returns:
        A table; ``*`` marks a value over another number of pairs than published.

    Raises:
        UserError: for an unknown aggregation or correlation.
    """
    require_known(aggregation, typing.get_args(Aggregation), "aggregation")
    require_known(correlation, typing.get_args(Correlation), "correlation")
    table = _by_subset(results, correlation) if subsets else _by_model(results, aggregation, correlation)
    if not all(task.complete for result in results.values() for task in result.sts.tasks.values()):
        table.caption = "* not the published number of pairs: does not compare with published values"
    return table


def _by_model(results: Mapping[str, StsResult], aggregation: Aggregation, correlation: Correlation) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"STS, {correlation.capitalize()} x 100, {aggregation}")
    table.add_column("Model")
    for task in TASKS.values():
        table.add_column(task.title, justify="right")
    table.add_column("Avg.", justify="right")
    for label, result in results.items():
        cells = []
        for key in TASKS:
            score = result.sts.tasks.get(key)
            cells.append(
                ABSENT if score is None else _number(score.by(correlation, aggregation), complete=score.complete)
            )
        table.add_row(Text(label), *cells, _number(result.sts.mean_over_tasks(correlation, aggregation)))
    return table


def _by_subset(results: Mapping[str, StsResult], correlation: Correlation) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=f"STS by subset, {correlation.capitalize()} x 100")
    table.add_column("Task")
    table.add_column("Subset")
    table.add_column("Pairs", justify="right")
    for label in results:
        table.add_column(Text(label), justify="right")
    for key, task in TASKS.items():
        scores = [result.sts.tasks.get(key) for result in results.values()]
        if all(score is None for score in scores):
            continue
        for position, name in enumerate(task.subsets):
            parts = [None if score is None else score.subsets.get(name) for score in scores]
            sizes = sorted({part.n for part in parts if part is not None})
            cells = [
                ABSENT
                if score is None or part is None
                else _number(part.pearson if correlation == "pearson" else part.spearman, complete=score.complete)
                for score, part in zip(scores, parts, strict=True)
            ]
            last = position == len(task.subsets) - 1
            table.add_row(task.title, name, "/".join(f"{n:,}" for n in sizes) or ABSENT, *cells, end_section=last)
    return table


def _number(value: float | None, *, complete: bool = True) -> str:
    return ABSENT if value is None else f"{value:.2f}{'' if complete else '*'}"
