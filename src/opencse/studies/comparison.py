"""From the records of a study to what can be said: means over seeds, differences, and how sure they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat

from opencse.analysis.significance import (
    DependentCorrelations,
    PairedBootstrapTasks,
    PairedSeeds,
    Summary,
    after_holm,
    paired_bootstrap_tasks,
    paired_seeds,
    summary,
    verdict,
    williams,
)
from opencse.errors import UserError, nearest
from opencse.settings import Settings
from opencse.studies.record import RunRecord, Which

Arrays = Mapping[str, NDArray[np.float64]]
Read = Callable[[str, str, int], Arrays]
"""(recipe, start, seed) -> the arrays of that run's STS scores; empty if there are none."""


class OverPairs(Settings):
    """One seed's system beside the baseline's at that seed, over other sentence pairs.

    Attributes:
        bootstrap: of the difference of the mean over the STS tasks, and of each task's.
        williams: of each task's two correlations, which share the gold scores.
    """

    bootstrap: PairedBootstrapTasks
    williams: dict[str, DependentCorrelations]


class Untrained(Settings):
    """A start before training.

    Attributes:
        start: what training begins with.
        reading: how its vectors are read; see `RunRecord`.
        results: its scores by name.
    """

    start: str
    reading: str | None = None
    results: dict[str, FiniteFloat]


class Row(Settings):
    """One recipe from one start, over its seeds.

    Attributes:
        start: what training began with.
        reading: how that is read where training begins.
        recipe: name with presets.
        scores: the metric by seed.
        metrics: every score's summary over the seeds, by name.
        starts_kept: runs whose judged encoder is the untrained start, because no trained one was better.
        beside_start: the metric's difference from that of the start, read as training begins; None where that was not
            judged on it.
        beside_baseline: the metric's difference from the baseline's at the same seeds; None for the baseline.
        over_pairs: by seed, where it was asked for.
        verdict: the difference in one sentence; empty for the baseline.
    """

    start: str
    reading: str | None = None
    recipe: str
    scores: dict[int, FiniteFloat]
    starts_kept: int = 0
    metrics: dict[str, Summary]
    beside_start: PairedSeeds | None = None
    beside_baseline: PairedSeeds | None = None
    over_pairs: dict[int, OverPairs] = Field(default_factory=dict)
    verdict: str = ""


class Comparison(Settings):
    """A study's findings.

    Attributes:
        metric: what is compared, for instance ``sts.average``.
        baseline: the recipe that the others stand beside.
        judged: which encoder of every run.
        starts: the starts, nothing trained, in every reading that was judged.
        rows: in the study's order.
    """

    metric: str
    baseline: str
    judged: Which
    starts: list[Untrained]
    rows: list[Row]


def compare(
    records: Sequence[RunRecord],
    baseline: str,
    *,
    metric: str | None = None,
    arrays: Read | None = None,
    resamples: int = 1_000,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Compares every recipe with ``baseline``, start by start, paired by seed.

    Holm's adjustment is over all comparisons with the baseline made here; those with the starts are another family.

    Args:
        records: of starts and runs.
        baseline: a recipe among them.
        metric: a score's name; ``sts.average`` if every run has it, else the first average that every run has, else
            the first score.
        arrays: the pair scores of a run; None leaves the tests over sentence pairs out.
        resamples: of the bootstrap over sentence pairs; 0 leaves it out.
        progress: called with (comparisons over pairs done, all).

    Raises:
        UserError: if there is no such recipe or metric among the records, or a run lacks the metric.
    """
    runs = [record for record in records if record.recipe is not None and record.seed is not None]
    recipes = list(dict.fromkeys(record.recipe for record in runs if record.recipe is not None))
    if baseline not in recipes:
        raise UserError(f"the baseline {baseline!r} is not among the recipes{nearest(baseline, recipes)}: {recipes}")
    chosen = _metric(runs, metric)
    cells: dict[tuple[str, str], list[RunRecord]] = {}
    for record in runs:
        cells.setdefault((record.start, str(record.recipe)), []).append(record)
    scores = {cell: {int(r.seed): r.results[chosen] for r in own if r.seed is not None} for cell, own in cells.items()}
    beside = after_holm(
        {
            f"{start}\n{recipe}": paired_seeds(values, scores[start, baseline])
            for (start, recipe), values in scores.items()
            if recipe != baseline and scores.get((start, baseline))
        }
    )
    readings = {cell: own[0].reading for cell, own in cells.items()}
    starts = {(r.start, r.reading): dict(r.results) for r in records if r.recipe is None}
    beside_start = after_holm(
        {
            f"{start}\n{recipe}": paired_seeds(values, dict.fromkeys(values, starts[start, reading][chosen]))
            for (start, recipe), values in scores.items()
            if chosen in starts.get((start, reading := readings[start, recipe]), {})
        }
    )
    read = arrays if resamples else None
    todo = [cell for cell in cells if f"{cell[0]}\n{cell[1]}" in beside] if read is not None else []
    rows = []
    for (start, recipe), own in cells.items():
        found = beside.get(f"{start}\n{recipe}")
        pairs: dict[int, OverPairs] = {}
        if read is not None and found is not None:
            pairs = over_pairs(read, start, recipe, baseline, found.seeds, resamples)
            if progress is not None:
                progress(todo.index((start, recipe)) + 1, len(todo))
        rows.append(
            Row(
                start=start,
                reading=readings[start, recipe],
                recipe=recipe,
                scores=scores[start, recipe],
                starts_kept=sum(_kept_start(record) for record in own),
                metrics={name: summary([r.results[name] for r in own]) for name in _shared(own)},
                beside_start=beside_start.get(f"{start}\n{recipe}"),
                beside_baseline=found,
                over_pairs=pairs,
                verdict="" if found is None else verdict(found),
            )
        )
    untrained = [Untrained(start=start, reading=how, results=own) for (start, how), own in starts.items()]
    return Comparison(metric=chosen, baseline=baseline, judged=runs[0].judged, starts=untrained, rows=rows)


def over_pairs(
    read: Read, start: str, recipe: str, baseline: str, seeds: Sequence[int], resamples: int
) -> dict[int, OverPairs]:
    """The tests over sentence pairs at each seed; seeds whose pair scores were not kept are left out."""
    found: dict[int, OverPairs] = {}
    for seed in seeds:
        ours, theirs = read(recipe, start, seed), read(baseline, start, seed)
        tasks = [name.removesuffix(".gold") for name in ours if name.endswith(".gold") and name in theirs]
        if not tasks:
            continue
        gold = {task: ours[f"{task}.gold"] for task in tasks}
        a = {task: ours[f"{task}.cosine"] for task in tasks}
        b = {task: theirs[f"{task}.cosine"] for task in tasks}
        found[seed] = OverPairs(
            bootstrap=paired_bootstrap_tasks(gold, a, b, resamples=resamples, seed=seed),
            williams={task: _williams(gold[task], a[task], b[task]) for task in tasks},
        )
    return found


def _williams(gold: NDArray[np.float64], a: NDArray[np.float64], b: NDArray[np.float64]) -> DependentCorrelations:
    """On ranks: Spearman's correlations are Pearson's of the ranks."""
    from scipy.stats import rankdata

    correlations = np.corrcoef([rankdata(gold), rankdata(a), rankdata(b)])
    return williams(correlations[0, 1], correlations[0, 2], correlations[1, 2], len(gold))


def _kept_start(record: RunRecord) -> bool:
    """Whether what was judged of a run is its untrained start."""
    return record.judged == "kept" and record.outcome is not None and record.outcome["kept"] in ("start", "given")


def _shared(records: Sequence[RunRecord]) -> list[str]:
    return [name for name in records[0].results if all(name in record.results for record in records)]


def _metric(runs: Sequence[RunRecord], metric: str | None) -> str:
    shared = _shared(runs)
    if metric is not None:
        if metric not in shared:
            raise UserError(
                f"not every run has the score {metric!r}{nearest(metric, shared)}; they have: {', '.join(shared)}"
            )
        return metric
    averages = [name for name in shared if name.rsplit(".", 1)[-1] == "average"]
    if not shared:
        raise UserError("the runs have no score in common; they were judged on different suites")
    return "sts.average" if "sts.average" in shared else (averages or shared)[0]
