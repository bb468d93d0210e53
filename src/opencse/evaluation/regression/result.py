"""What the STS regressor found, and its table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import FiniteFloat

from opencse.evaluation.record import EvaluationRecord
from opencse.evaluation.regression.data import PUBLISHED
from opencse.evaluation.sts.data import TASKS
from opencse.settings import Settings

if TYPE_CHECKING:
    from rich.table import Table

ABSENT = "-"


class RegressorScore(Settings):
    """The scores of one task, correlations x 100.

    Attributes:
        spearman: of the test set.
        pearson: of the test set.
        dev_spearman: the best dev check, by which the fit was kept; never report it as the task's.
        passes: over the training set.
        examples: pairs by part.
        complete: whether these are the published numbers; if not, do not compare with published values.
        seconds: wall clock of the fit.
    """

    spearman: FiniteFloat
    pearson: FiniteFloat
    dev_spearman: FiniteFloat
    passes: int
    examples: dict[str, int]
    complete: bool
    seconds: FiniteFloat


class RegressorResult(EvaluationRecord):
    """An evaluation by regression: ``sts_regressor.<task>.spearman`` and so on."""

    sts_regressor: dict[str, RegressorScore]

    def values(self) -> dict[str, float]:
        """Spearman x 100: ``sts_regressor.<task>``."""
        return {f"sts_regressor.{key}": score.spearman for key, score in self.sts_regressor.items()}


def regressor_table(results: Mapping[str, RegressorResult]) -> Table:
    """Spearman and Pearson x 100 with two decimals, a row a model; ``-`` where there is none.

    Args:
        results: by label, in the order to show.

    Returns:
        A table; ``*`` marks other numbers of pairs than published.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(title="STS by a fitted regressor, test correlations x 100")
    table.add_column("Model")
    for key in PUBLISHED:
        for name in ("Spearman", "Pearson"):
            table.add_column(f"{TASKS[key].title} {name}", justify="right")
    for label, result in results.items():
        cells = []
        for key in PUBLISHED:
            score = result.sts_regressor.get(key)
            if score is None:
                cells += [ABSENT, ABSENT]
            else:
                cells += [f"{x:.2f}{'' if score.complete else '*'}" for x in (score.spearman, score.pearson)]
        table.add_row(Text(label), *cells)
    if not all(score.complete for result in results.values() for score in result.sts_regressor.values()):
        table.caption = "* not the published numbers of pairs: does not compare with published values"
    return table
