"""What the STS regressor found, and its table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import FiniteFloat

from opencse.evaluation.record import EvaluationRecord
from opencse.evaluation.regression.data import PUBLISHED
from opencse.evaluation.sts.data import TASKS
from opencse.evaluation.table import cell, table_of
from opencse.settings import Settings

if TYPE_CHECKING:
    from rich.table import Table


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
    headers = [f"{TASKS[key].title} {name}" for key in PUBLISHED for name in ("Spearman", "Pearson")]
    rows = []
    for label, result in results.items():
        cells = []
        for key in PUBLISHED:
            score = result.sts_regressor.get(key)
            both = (None, None) if score is None else (score.spearman, score.pearson)
            cells += [cell(value, complete=score is None or score.complete) for value in both]
        rows.append([label, *cells])
    complete = all(score.complete for result in results.values() for score in result.sts_regressor.values())
    notes = [] if complete else ["* not the published numbers of pairs: does not compare with published values"]
    return table_of("STS by a fitted regressor, test correlations x 100", ["Model"], headers, rows, notes)
