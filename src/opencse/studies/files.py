"""What a comparison leaves in its folder: ``comparison.json``, ``comparison.md`` and ``comparison.svg``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from opencse.analysis.figures import scores_by_recipe, standalone
from opencse.markdown import without_home
from opencse.progress import Counted, Progress
from opencse.records import write_json, write_text
from opencse.studies.comparison import Comparison, compare
from opencse.studies.record import StudyRecord
from opencse.studies.running import read_arrays
from opencse.studies.study import RunSpec, Study
from opencse.studies.tables import markdown

WRITTEN = ("comparison.json", "comparison.md", "comparison.svg")


def write_comparison(
    study: Study,
    records: Sequence[StudyRecord],
    baseline: str,
    *,
    metric: str | None,
    resamples: int,
    command: str,
    progress: Progress,
) -> Comparison:
    """Compares, writes the three files, and gives the comparison.

    Raises:
        UserError: see `compare`.
    """

    def arrays(recipe: str, start: str, seed: int) -> dict[str, NDArray[np.float64]]:
        folder = study.folder(RunSpec(recipe, start, seed))
        return read_arrays(folder, "sts") or read_arrays(folder, "dev")

    comparison = compare(
        records,
        baseline,
        metric=metric,
        arrays=arrays,
        resamples=resamples,
        progress=Counted(progress, "comparing over pairs"),
    )
    write_json(study.out / "comparison.json", comparison.model_dump(mode="json"))
    write_text(study.out / "comparison.md", without_home(markdown(comparison, records, command)))
    panels = {
        start: (
            {row.recipe: list(row.scores.values()) for row in comparison.rows if row.start == start},
            {
                str(own.reading): own.results[comparison.metric]
                for own in comparison.starts
                if own.start == start and comparison.metric in own.results
            },
        )
        for start in dict.fromkeys(row.start for row in comparison.rows)
    }
    drawn = scores_by_recipe(panels, comparison.metric, baseline)
    write_text(study.out / "comparison.svg", standalone(drawn))
    return comparison
