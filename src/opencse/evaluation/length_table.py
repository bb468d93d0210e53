"""STS by the difference of the sentences' lengths, as a table for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from opencse.evaluation.result import LengthScore, LengthSplit, StsResult, StsScores
from opencse.evaluation.sts_data import TASKS

if TYPE_CHECKING:
    from rich.table import Table

ABSENT = "-"
HALVES = ("up to 3", "over 3")


def length_table(results: Mapping[str, StsResult]) -> Table:
    """Spearman x 100 of the pairs whose lengths differ by up to 3 words, and of the others (ESimCSE, Tables 1, 7).

    Args:
        results: by label, in the order to show.

    Returns:
        Two rows a model and a column a task (those that some result has), then the plain mean over the model's
        tasks; ``-`` where there is no value, and in the mean if any of the model's tasks has none. The first two
        rows tell the numbers of pairs.
    """
    from rich.table import Table
    from rich.text import Text

    keys = [key for key in TASKS if any(key in result.sts.tasks for result in results.values())]
    table = Table(title="STS by difference in length (words), Spearman x 100")
    table.add_column("Model")
    table.add_column("Difference")
    for key in keys:
        table.add_column(TASKS[key].title, justify="right")
    table.add_column("Avg.", justify="right")
    splits = {label: {key: _split(result.sts, key) for key in keys} for label, result in results.items()}
    for half in HALVES:
        sizes = [
            sorted({_half(split, half).n for by_key in splits.values() if (split := by_key[key]) is not None})
            for key in keys
        ]
        cells = ["/".join(f"{n:,}" for n in counts) or ABSENT for counts in sizes]
        table.add_row("pairs", half, *cells, ABSENT, end_section=half == HALVES[-1])
    for label, by_key in splits.items():
        means = mean_by_length(results[label].sts)
        for half in HALVES:
            cells = [ABSENT if split is None else f"{_half(split, half).spearman:.2f}" for split in by_key.values()]
            mean = ABSENT if means is None else f"{means[HALVES.index(half)]:.2f}"
            table.add_row(Text(label), half, *cells, mean, end_section=half == HALVES[-1])
    return table


def mean_by_length(scores: StsScores) -> tuple[float, float] | None:
    """Plain means over the tasks of Spearman x 100: up to 3 words, over 3; None unless every task has both."""
    splits = [task.by_length for task in scores.tasks.values()]
    known = [split for split in splits if split is not None]
    if not known or len(known) != len(splits):
        return None
    return (
        sum(split.up_to_3.spearman for split in known) / len(known),
        sum(split.over_3.spearman for split in known) / len(known),
    )


def _split(scores: StsScores, key: str) -> LengthSplit | None:
    task = scores.tasks.get(key)
    return None if task is None else task.by_length


def _half(split: LengthSplit, half: str) -> LengthScore:
    return split.up_to_3 if half == HALVES[0] else split.over_3
