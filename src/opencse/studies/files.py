"""Writes the results of a comparison: ``comparison.json``, ``comparison.md`` and ``comparison.svg``."""

from __future__ import annotations

from collections.abc import Sequence

from opencse.analysis.figures import scores_by_recipe, standalone
from opencse.arrays import Floats
from opencse.markdown import without_home
from opencse.progress import Counted, Progress
from opencse.records import save_json, save_text
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
    """Compares the records of a study, writes the three files, and returns the comparison.

    Raises:
        UserError: see `compare`.
    """

    def arrays(recipe: str, start: str, seed: int) -> dict[str, Floats]:
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
    save_json(study.out / "comparison.json", comparison.model_dump(mode="json"))
    save_text(study.out / "comparison.md", without_home(markdown(comparison, records, command)))
    panels = {
        start: (
            {row.recipe: list(row.scores.values()) for row in comparison.rows if row.start == start},
            {
                str(untrained.reading): untrained.results[comparison.metric]
                for untrained in comparison.starts
                if untrained.start == start and comparison.metric in untrained.results
            },
        )
        for start in dict.fromkeys(row.start for row in comparison.rows)
    }
    figure = scores_by_recipe(panels, comparison.metric, baseline)
    save_text(study.out / "comparison.svg", standalone(figure))
    return comparison
