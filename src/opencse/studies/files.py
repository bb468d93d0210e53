"""Writes a comparison: ``comparison.json``, ``comparison.md`` and ``comparison.svg``; of a grid also ``grid.svg``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opencse.analysis.figures import heat_maps, scores_by_recipe, standalone, value_curves
from opencse.arrays import Floats
from opencse.markdown import without_home
from opencse.progress import Counted, Progress
from opencse.records import save_json, save_text
from opencse.studies.comparison import Comparison, Tuned, compare
from opencse.studies.judging import read_arrays
from opencse.studies.record import StudyRecord
from opencse.studies.study import RunSpec, Study
from opencse.studies.tables import markdown

WRITTEN = ("comparison.json", "comparison.md", "comparison.svg", "grid.svg")


def write_comparison(
    study: Study,
    records: Sequence[StudyRecord],
    baseline: str,
    *,
    metric: str | None,
    resamples: int,
    command: str,
    progress: Progress,
    tuned: Tuned | None = None,
) -> Comparison:
    """Compares the records of a study, writes its files, and returns the comparison.

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
        variants=study.variants,
        arrays=arrays,
        resamples=resamples,
        progress=Counted(progress, "comparing over pairs"),
    ).model_copy(update={"tuned": tuned})
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
    if (grid := grid_figure(comparison)) is not None:
        save_text(study.out / "grid.svg", standalone(grid))
    return comparison


def grid_figure(comparison: Comparison) -> str | None:
    """The picture of a grid: curves over the values of one setting, heat maps over those of two; else None."""
    if comparison.tuned is not None:
        return None  # each recipe has one value
    rows = [row for row in comparison.rows if row.values]
    keys = list(rows[0].values) if rows else []
    if len(keys) not in (1, 2):
        return None
    values = {key: list(dict.fromkeys(row.values[key] for row in rows)) for key in keys}
    several = len({row.start for row in rows}) > 1
    series: dict[str, dict[tuple[str, ...], list[float]]] = {}
    for row in rows:
        name = f"{row.base} from {row.start}" if several else str(row.base)
        series.setdefault(name, {})[tuple(row.values.values())] = list(row.scores.values())
    if len(keys) == 1:
        curves = {name: [scores[value,] for value in values[keys[0]]] for name, scores in series.items()}
        return value_curves(values[keys[0]], curves, keys[0], comparison.metric)
    across, down = keys
    means = {
        name: [[float(np.mean(scores[x, y])) for x in values[across]] for y in values[down]]
        for name, scores in series.items()
    }
    return heat_maps((across, values[across]), (down, values[down]), means, comparison.metric)
