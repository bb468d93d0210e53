"""Compares the recipes of a study: means over seeds, differences, intervals, significance, and published scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

import numpy as np
from pydantic import Field, FiniteFloat

from opencse.arrays import Floats
from opencse.documents.dev_choice import AUTO, NONE, SAMPLE, TEXT, TRANSFER, Dev
from opencse.errors import UserError, nearest
from opencse.evaluation.sts import Grouping, StsDev
from opencse.evaluation.suites import suite_named
from opencse.numerals import number_of
from opencse.progress import Count, uncounted
from opencse.recipes.files import Judged
from opencse.recipes.recipe import resolve_recipe
from opencse.settings import Settings
from opencse.statistics import (
    PairedBootstrapTasks,
    PairedSeeds,
    Summary,
    TwoWay,
    after_holm,
    paired_bootstrap_tasks,
    paired_seeds,
    summary,
    two_way,
    verdict,
)
from opencse.studies.study import StudyRecord, Variant, Which, best_of_each, parse_grid

StudyCell = tuple[str, str]
"""A start and a recipe, whose runs differ by their seed alone."""
Read = Callable[[str, str, int], Mapping[str, Floats]]
"""(recipe, start, seed) -> the arrays of that run's STS scores; empty if there are none."""


class OverPairs(Settings):
    """Tests of one seed's model against the baseline's at that seed, over resampled sentence pairs.

    Attributes:
        bootstrap: of the difference of the mean over the STS tasks, and of each task's.
    """

    bootstrap: PairedBootstrapTasks


class Untrained(Settings):
    """The scores of a start before training.

    Attributes:
        start: the model that training begins with.
        reading: how its vectors are read; see `StudyRecord`.
        results: its scores by name.
    """

    start: str
    reading: str | None = None
    results: dict[str, FiniteFloat]


class Row(Settings):
    """The scores of one recipe from one start, over its seeds.

    Attributes:
        start: the model that training began with.
        reading: how its vectors are read where training begins.
        recipe: name with presets.
        scores: the metric by seed.
        starts_kept: runs whose evaluated encoder is the untrained start, because no trained one was better.
        metrics: every score's summary over the seeds, by name.
        against_start: the metric's difference from that of the start, read as training begins; None where that has
            no such score.
        against_baseline: the metric's difference from the baseline's at the same seeds; None for the baseline.
        over_pairs: the tests over sentence pairs by seed; empty where they were not requested.
        verdict: the difference in one sentence; empty for the baseline.
        base: the recipe without the values of a grid; None without a grid.
        values: of a grid, by dotted key.
        two_way: the variation of the metric over data order and dropout, where these are seeded apart; ``scores`` are
            then by the number of the pair of seeds, and differences are of means over dropout (or over data order,
            where that has fewer seeds), so that no run counts twice.
    """

    start: str
    reading: str | None = None
    recipe: str
    base: str | None = None
    values: dict[str, str] = Field(default_factory=dict)
    scores: dict[int, FiniteFloat]
    two_way: TwoWay | None = None
    starts_kept: int = 0
    metrics: dict[str, Summary]
    against_start: PairedSeeds | None = None
    against_baseline: PairedSeeds | None = None
    over_pairs: dict[int, OverPairs] = Field(default_factory=dict)
    verdict: str = ""


TUNING = "tuning"
"""The folder, in that of a comparison, of the comparison that chose the values of each recipe."""


class Tuned(Settings):
    """How the values of each recipe were chosen.

    Attributes:
        metric: the score that they were chosen by.
        seeds: of the runs that chose.
        best: by recipe, its score with the values that were chosen, the mean over seeds and starts.
    """

    metric: str
    seeds: list[int]
    best: dict[str, FiniteFloat]


class Comparison(Settings):
    """The results of a study.

    Attributes:
        metric: the score that is compared, for instance ``sts.average``.
        baseline: the recipe that the others are compared with.
        judged: which encoder of every run was evaluated.
        starts: the untrained starts, in every reading that was evaluated.
        rows: one for each recipe and start, in the study's order.
        tuned: how the values of each recipe were chosen; None where all have the same.
    """

    metric: str
    baseline: str
    judged: Which
    starts: list[Untrained]
    rows: list[Row]
    tuned: Tuned | None = None


def compare(
    records: Sequence[StudyRecord],
    baseline: str,
    *,
    metric: str | None = None,
    variants: Mapping[str, Variant] | None = None,
    arrays: Read | None = None,
    resamples: int = 1_000,
    progress: Count = uncounted,
) -> Comparison:
    """Compares every recipe with ``baseline``, start by start, paired by seed.

    Holm's adjustment is over all comparisons with the baseline; the comparisons with the starts are a second family.

    Args:
        records: of starts and runs.
        baseline: a recipe among them.
        metric: a score's name; ``sts.average`` if every run has it, else the first average that every run has, else
            the first score.
        variants: by recipe in the records, the values of a grid.
        arrays: the pair scores of a run; None leaves the tests over sentence pairs out.
        resamples: of the bootstrap over sentence pairs; 0 leaves it out.
        progress: called with (comparisons over pairs done, all).

    Raises:
        UserError: if there is no such recipe or metric among the records, or a run lacks the metric.
    """
    cells = _cells(records)
    runs = [run for cell_runs in cells.values() for run in cell_runs]
    recipes = list(dict.fromkeys(recipe for _, recipe in cells))
    if baseline not in recipes:
        raise UserError(f"the baseline {baseline!r} is not among the recipes{nearest(baseline, recipes)}: {recipes}")
    compared = _metric(runs, metric)
    scores = {
        cell: {run.seed: run.results[compared] for run in cell_runs if run.seed is not None}
        for cell, cell_runs in cells.items()
    }
    layouts = {cell: _two_way(cell_runs, compared) for cell, cell_runs in cells.items()}
    units = {cell: _units(layouts[cell]) or by_seed for cell, by_seed in scores.items()}
    against_baseline = _against_baseline(units, baseline)
    starts = {(one.start, one.reading): dict(one.results) for one in records if one.recipe is None}
    readings = {cell: cell_runs[0].reading for cell, cell_runs in cells.items()}
    before = {cell: starts.get((cell[0], reading), {}).get(compared) for cell, reading in readings.items()}
    against_start = _against_start(units, before)
    pairs: dict[StudyCell, dict[int, OverPairs]] = {}
    if arrays is not None and resamples:
        for number, (start, recipe) in enumerate(against_baseline, start=1):
            seeds = sorted(scores[start, recipe].keys() & scores[start, baseline].keys())
            pairs[start, recipe] = over_pairs(arrays, start, recipe, baseline, seeds, resamples)
            progress(number, len(against_baseline))
    rows = []
    for cell, cell_runs in cells.items():
        start, recipe = cell
        variant = (variants or {}).get(recipe)
        difference = against_baseline.get(cell)
        rows.append(
            Row(
                start=start,
                reading=readings[cell],
                recipe=recipe,
                base=None if variant is None else variant.recipe,
                values={} if variant is None else dict(variant.values),
                scores=scores[cell],
                two_way=layouts[cell],
                starts_kept=sum(run.keeps_start() for run in cell_runs),
                metrics={name: summary([run.results[name] for run in cell_runs]) for name in shared_scores(cell_runs)},
                against_start=against_start.get(cell),
                against_baseline=difference,
                over_pairs=pairs.get(cell, {}),
                verdict="" if difference is None else verdict(difference),
            )
        )
    untrained = [Untrained(start=start, reading=how, results=results) for (start, how), results in starts.items()]
    return Comparison(metric=compared, baseline=baseline, judged=runs[0].judged, starts=untrained, rows=rows)


def _cells(records: Sequence[StudyRecord]) -> dict[StudyCell, list[StudyRecord]]:
    """The runs of each cell, in the order of the records; without the starts."""
    cells: dict[StudyCell, list[StudyRecord]] = {}
    for record in records:
        if record.recipe is not None:
            cells.setdefault((record.start, record.recipe), []).append(record)
    return cells


def _against_baseline(units: Mapping[StudyCell, Mapping[int, float]], baseline: str) -> dict[StudyCell, PairedSeeds]:
    """The difference of each other recipe from the baseline of the same start, paired by seed."""
    return after_holm(
        {
            (start, recipe): paired_seeds(values, units[start, baseline])
            for (start, recipe), values in units.items()
            if recipe != baseline and (start, baseline) in units
        }
    )


def _against_start(
    units: Mapping[StudyCell, Mapping[int, float]], before: Mapping[StudyCell, float | None]
) -> dict[StudyCell, PairedSeeds]:
    """The difference of each cell from the score ``before`` training, where that is known."""
    return after_holm(
        {
            cell: paired_seeds(units[cell], dict.fromkeys(units[cell], score))
            for cell, score in before.items()
            if score is not None
        }
    )


def _two_way(runs: Sequence[StudyRecord], metric: str) -> TwoWay | None:
    """The variation over data order and dropout, where the runs have seeds of both."""
    by_pair = {
        (run.data_seed, run.dropout_seed): run.results[metric]
        for run in runs
        if run.data_seed is not None and run.dropout_seed is not None
    }
    return two_way(by_pair) if by_pair else None


def _units(layout: TwoWay | None) -> dict[int, float]:
    """Means by the seed that has more values, data order first; empty without a layout."""
    if layout is None:
        return {}
    by_data = len(layout.data_seeds) >= len(layout.dropout_seeds)
    means = np.array(layout.scores).mean(axis=1 if by_data else 0).tolist()
    return dict(zip(layout.data_seeds if by_data else layout.dropout_seeds, means, strict=True))


def over_pairs(
    read: Read, start: str, recipe: str, baseline: str, seeds: Sequence[int], resamples: int
) -> dict[int, OverPairs]:
    """The tests over sentence pairs at each seed; seeds whose pair scores were not kept are left out."""
    tests: dict[int, OverPairs] = {}
    for seed in seeds:
        of_recipe, of_baseline = read(recipe, start, seed), read(baseline, start, seed)
        tasks = [name.removesuffix(".gold") for name in of_recipe if name.endswith(".gold") and name in of_baseline]
        if not tasks:
            continue
        gold = {task: of_recipe[f"{task}.gold"] for task in tasks}
        if other := [task for task in tasks if not np.array_equal(gold[task], of_baseline[f"{task}.gold"])]:
            raise UserError(
                f"{recipe} and {baseline}, seed {seed}: were not scored on the same pairs of {', '.join(other)}; "
                "evaluate both again"
            )
        a = {task: of_recipe[f"{task}.cosine"] for task in tasks}
        b = {task: of_baseline[f"{task}.cosine"] for task in tasks}
        tests[seed] = OverPairs(
            bootstrap=paired_bootstrap_tasks(gold, a, b, resamples=resamples, seed=seed),
        )
    return tests


def shared_scores(runs: Sequence[StudyRecord]) -> list[str]:
    """The names of the scores that all of ``runs`` have."""
    return [name for name in runs[0].results if all(name in run.results for run in runs)]


def _metric(runs: Sequence[StudyRecord], metric: str | None) -> str:
    shared = shared_scores(runs)
    if metric is not None:
        if metric not in shared:
            raise UserError(
                f"not every run has the score {metric!r}{nearest(metric, shared)}; they have: {', '.join(shared)}"
            )
        return metric
    if not shared:
        raise UserError("the runs have no score in common; they were evaluated on different suites")
    averages = [name for name in shared if name.rsplit(".", 1)[-1] in ("average", "average_of_present")]
    return "sts.average" if "sts.average" in shared else (averages or shared)[0]


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


BACKBONE_OF_ABLATIONS = "bert-base"
NOT_STSB = {
    NONE: "nothing",
    SAMPLE: "the built-in sample",
    TEXT: "questions from the text",
    AUTO: "questions from the text, or the built-in sample",
    TRANSFER: "the transfer tasks",
}
"""Kinds of ``dev`` that are not the user's graded pairs (papers select on STS-B dev), as messages name them."""


@dataclass(frozen=True)
class PaperRow:
    """The published scores of one system, a row of a paper's table.

    Attributes:
        recipe: name with presets.
        paper: authors, year, title.
        note: which table.
        paper_start: the backbone of the row.
        start: the model that training begins with here.
        seeds: the paper's where it names them, else the recipe's single seed.
        expected: the published scores by name, in percent.
        judged: how the encoder is evaluated.
    """

    recipe: str
    paper: str
    note: str
    paper_start: str
    start: str
    seeds: Sequence[int]
    expected: dict[str, float]
    judged: Judged = field(default_factory=Judged)

    @property
    def groupings(self) -> list[Grouping]:
        """The groupings of STS's pairs, other than all at once, that scores were published of."""
        names = {name.partition(".")[0] for name in self.expected}
        return [grouping for grouping in get_args(Grouping) if f"sts_{grouping}" in names]

    def lines(self, dev: str, settings: int) -> list[str]:
        """Says which row is reproduced, and how this run differs from the paper's."""
        differences = []
        if self.start != self.paper_start:
            differences.append(f"the start is {self.start}, the paper's {self.paper_start}")
        if settings:
            differences.append(f"{number_of(settings, 'setting')} changed by --set")
        if (selected_on := _not_stsb(dev)) is not None and self.judged.trained:
            differences.append(f"selection on {selected_on}, not STS-B dev")
        return [
            f"row        {self.recipe}: {self.paper or 'our own'}{f' ({self.note})' if self.note else ''}",
            *([f"evaluated  {self.judged}"] if str(self.judged) else []),
            f"differs    {'; '.join(differences) or 'in nothing known'}",
        ]


def paper_row(recipe: str, model: str | None = None) -> PaperRow:
    """Finds the published row of ``recipe`` (with presets).

    The scores are read from the last named preset that has some; those of ablations were measured with BERT-base.

    Args:
        recipe: name with presets.
        model: another start than the paper's.

    Raises:
        UserError: if no scores are known for it, naming presets that have some.
    """
    resolved = resolve_recipe(recipe)
    base = resolved.recipe
    applied = [base.presets[name] for name in resolved.presets if name in base.presets]
    row = next((preset for preset in reversed(applied) if preset.expected), None)
    if row is None:
        known = ", ".join(name for name, preset in base.presets.items() if preset.expected)
        instead = f"name a preset that has some: {known}" if known else "opencse compare compares it with other recipes"
        raise UserError(f"{recipe}: no published scores are known for it; {instead}")
    backbone = resolved.backbone or base.presets.get(BACKBONE_OF_ABLATIONS)
    start = None if backbone is None else backbone.model
    if start is None:
        raise UserError(f"{recipe}: its row names no backbone; give one with --model")
    return PaperRow(
        recipe=recipe,
        paper=base.paper,
        note=row.note,
        paper_start=start,
        start=model or start,
        seeds=base.seeds or (base.training.seed,),
        expected=row.expected,
        judged=row.judged,
    )


def reproduced(records: Sequence[StudyRecord]) -> dict[str, Summary]:
    """Summarises every score over the seeds.

    Of an untrained row the only record is that of the start. Where no suite gave ``dev.stsb``, the kept encoders' score
    on the user's dev pairs is reported as that.
    """
    runs = [record for record in records if record.recipe is not None] or list(records)
    scores = {name: summary([run.results[name] for run in runs]) for name in shared_scores(runs)}
    by_pairs = [run for run in runs if run.asked.get("dev") is not None and _not_stsb(run.asked["dev"]) is None]
    selected = [run.outcome.score for run in by_pairs if run.outcome]
    known = [score for score in selected if score is not None]
    return {"dev.stsb": summary(known), **scores} if len(known) == len(runs) else scores


def _not_stsb(dev: str) -> str | None:
    """What ``dev`` selects on, for messages; None where that is the user's graded pairs."""
    return NOT_STSB.get(Dev.of(dev).kind)
