"""Shows a comparison as tables, for the terminal and as Markdown, and writes its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from opencse.analysis.figures import heat_maps, scores_by_recipe, standalone, value_curves
from opencse.arrays import Floats
from opencse.errors import printable
from opencse.evaluation.table import ABSENT, constant_columns_in_title
from opencse.markdown import as_text, without_home
from opencse.numerals import number_of
from opencse.progress import Counted, Progress
from opencse.records import save_json, save_text
from opencse.statistics import Summary, brief
from opencse.studies.comparison import TUNING, Comparison, Row, Tuned, compare
from opencse.studies.running import read_arrays
from opencse.studies.study import RunSpec, Study, StudyRecord

if TYPE_CHECKING:
    from rich.table import Table


NAMES = ("start", "recipe", "score")
"""Columns of names, which are the first; the others are aligned to the right, except for sentences."""
SENTENCES = ("difference", "against the start")
"""Columns that a narrow terminal folds."""


@dataclass(frozen=True)
class Grid:
    """A table of plain texts."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> list[str]:
        """The lines of the table in Markdown; names stay text."""
        lines = [self.head, *self.rows]
        head, *rows = ("| " + " | ".join(map(as_text, cells)) + " |" for cells in lines)
        return [head, "|" + "---|" * len(self.head), *rows]

    def rich(self, title: str, caption: str | None = None) -> Table:
        """The table for a terminal."""
        from opencse.evaluation.table import FittingTable, TableContent

        movable = [name for name in self.head if name == "start"]
        title, head, rows = constant_columns_in_title(title, self.head, self.rows, movable)
        texts = [[str(cell) for cell in row] for row in rows]
        labels, right = [name for name in head if name in NAMES], [name for name in head if name not in NAMES]
        return FittingTable(TableContent(labels, right, texts, frozenset(SENTENCES)), title=title, caption=caption)


def comparison_table(comparison: Comparison) -> Table:
    """One row per start and recipe: every headline score, and the difference from the baseline in the metric."""
    grid = headlines(comparison, "difference")
    return grid.rich(f"{comparison.metric} against {comparison.baseline}", which_encoders(comparison))


def expected_table(expected: Mapping[str, float], measured: Mapping[str, Summary]) -> Table:
    """Published and measured scores, one row per score; ``-`` where a suite was not run."""
    rows = []
    for name, value in expected.items():
        result = measured.get(name)
        rows.append(
            [name, f"{value:.2f}", mean_and_sd(result), ABSENT if result is None else f"{result.mean - value:+.2f}"]
        )
    return Grid(["score", "published", "measured", "difference"], rows).rich("published and measured scores")


def markdown(comparison: Comparison, records: Sequence[StudyRecord], command: str) -> str:
    """The complete comparison as a page: the table, the scores task by task, and how they were computed."""
    baseline = as_text(comparison.baseline)
    tasks = [name for name in _all_metrics(comparison) if name not in columns(comparison)]
    by_task = [
        [row.start, row.recipe, *(mean_and_sd(row.metrics.get(name)) for name in tasks)] for row in comparison.rows
    ]
    recipes = number_of(len({row.recipe for row in comparison.rows}), "recipe")
    lines = [
        f"# {comparison.metric}: {recipes} against {baseline}",
        "",
        f"    {printable(command)}",
        "",
        *headlines(comparison, f"against {comparison.baseline}").markdown(),
        "",
        which_encoders(comparison),
        *_tuned_line(comparison),
        "",
        f"Mean ± standard deviation over seeds. Differences are of {comparison.metric}, paired by seed, with Student's "
        f"95% interval (against the start: ± half of it); p is after Holm over all comparisons with {baseline}, or all "
        "with a start.",
        "",
        *_over_pairs(comparison.rows),
        *_by_seed(comparison.rows),
        *(["## Task by task", "", *Grid(["start", "recipe", *tasks], by_task).markdown(), ""] if tasks else []),
        _provenance(records),
        "",
    ]
    return "\n".join(lines)


def headlines(comparison: Comparison, difference: str) -> Grid:
    """Rows of each untrained start, in every reading, then of its recipes; ``difference`` names the last column."""
    metrics = columns(comparison)
    cells: list[list[str]] = []
    for start in dict.fromkeys(row.start for row in comparison.rows):
        for untrained in comparison.starts:
            if untrained.start == start:
                scores = [f"{untrained.results[name]:.2f}" if name in untrained.results else ABSENT for name in metrics]
                cells.append([start, f"({untrained.reading})", "", *scores, "", ""])
        for row in comparison.rows:
            if row.start == start:
                scores = [mean_and_sd(row.metrics.get(name)) for name in metrics]
                differences = [_against_start(row), row.verdict or "baseline"]
                cells.append([start, row.recipe, str(len(row.scores)), *scores, *differences])
    return Grid(["start", "recipe", "seeds", *metrics, "against the start", difference], cells)


def columns(comparison: Comparison) -> list[str]:
    """The headline scores, the metric first: averages of a suite, and nDCG of retrieval sets."""
    averages = {"average", "average_of_present", "ndcg_at_10"}
    averages_of_suites = [name for name in _all_metrics(comparison) if name.rsplit(".", 1)[-1] in averages]
    return [comparison.metric, *(name for name in averages_of_suites if name != comparison.metric)]


def _tuned_line(comparison: Comparison) -> list[str]:
    if comparison.tuned is None:
        return []
    seeds = ", ".join(map(str, comparison.tuned.seeds))
    return [
        "",
        f"The values of each recipe are those of the highest {comparison.tuned.metric} at seed {seeds}, which is not "
        f"among the seeds above: {TUNING}/comparison.md.",
    ]


def which_encoders(comparison: Comparison) -> str:
    """Says which encoders were scored; where the kept ones were, also how many of them are the untrained start."""
    if comparison.judged == "last":
        return "Scored: the encoder of each run's last step. Against the start: as it was read before training."
    runs, starts = (sum(n) for n in zip(*((len(r.scores), r.starts_kept) for r in comparison.rows), strict=True))
    none = " These scores say nothing about the recipes; score their last encoders." if starts == runs else ""
    return (
        f"Scored: the encoder that each run kept on the dev pairs. The start was kept in {starts} of {runs} runs.{none}"
    )


def mean_and_sd(scores: Summary | None) -> str:
    """``mean ± sd``, or the single value."""
    if scores is None:
        return ABSENT
    return f"{scores.mean:.2f}" if scores.sd is None else f"{scores.mean:.2f} ± {scores.sd:.2f}"


def _against_start(row: Row) -> str:
    note = f"start kept in {row.starts_kept} of {len(row.scores)}" if row.starts_kept else ""
    if row.starts_kept == len(row.scores):
        return note
    difference = ABSENT if row.against_start is None else brief(row.against_start)
    return f"{difference}; {note}" if note else difference


def _over_pairs(rows: Sequence[Row]) -> list[str]:
    """How many seeds' models differ significantly from the baseline's over resampled sentence pairs."""
    tested = [row for row in rows if row.over_pairs]
    if not tested:
        return []
    cells = []
    for row in tested:
        intervals = [pairs.bootstrap.interval for pairs in row.over_pairs.values()]
        better = sum(one is not None and one[0] > 0 for one in intervals)
        worse = sum(one is not None and one[1] < 0 for one in intervals)
        cells.append([row.start, row.recipe, f"{better}", f"{worse}", f"{len(intervals) - better - worse}"])
    resamples = next(iter(tested[0].over_pairs.values())).bootstrap.resamples
    return [
        f"Seed by seed, {resamples:,} bootstrap samples of the sentence pairs: models whose mean over the STS tasks is "
        "beyond the baseline's (95%).",
        "",
        *Grid(["start", "recipe", "better", "worse", "neither"], cells).markdown(),
        "",
    ]


def _by_seed(rows: Sequence[Row]) -> list[str]:
    """How much of the variation is due to data order and to dropout, where these are seeded apart."""
    layouts = [(row, row.two_way) for row in rows if row.two_way is not None]
    if not layouts:
        return []
    first = layouts[0][1]
    seeds = [", ".join(map(str, some)) for some in (first.data_seeds, first.dropout_seeds)]
    cells = [
        [
            row.start,
            row.recipe,
            *(
                ABSENT if value is None else f"{value:.3f}"
                for value in (
                    layout.mean,
                    layout.sd_over_data,
                    layout.sd_over_dropout,
                    layout.variance_of_data,
                    layout.variance_of_dropout,
                    layout.variance_of_rest,
                )
            ),
        ]
        for row, layout in layouts
    ]
    head = ["sd over data order", "sd over dropout", "variance: data order", "dropout", "rest"]
    return [
        "## Data order and dropout",
        "",
        f"Seeds of the data order {seeds[0]}; of dropout {seeds[1]}; a run for each pair. Standard deviations are of "
        "means over the other seed; the variances are estimated components, 0 where the estimate is below. Differences "
        "above are of means over the seed with fewer values.",
        "",
        *Grid(["start", "recipe", "mean", *head], cells).markdown(),
        "",
    ]


def _all_metrics(comparison: Comparison) -> list[str]:
    return list(dict.fromkeys(name for row in comparison.rows for name in row.metrics))


def _provenance(records: Sequence[StudyRecord]) -> str:
    """Number of runs, hours, versions, machine and date."""
    runs = [record for record in records if record.recipe is not None]
    last = records[-1].environment
    train = sum(record.train_seconds or 0.0 for record in runs)
    scoring = sum(record.judge_seconds for record in records)
    facts = ", ".join(f"{key} {value}" for key, value in last.model_dump(mode="json").items() if value is not None)
    return (
        f"{number_of(len(runs), 'run')}, {train / 3600:.2f} h of training and {scoring / 3600:.2f} h of evaluation; "
        f"opencse {records[-1].opencse}, {facts}; {max(record.created for record in records):%Y-%m-%d}."
    )


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
    tuned: Tuned | None,
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
