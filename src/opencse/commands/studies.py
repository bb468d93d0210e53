"""Compares recipes over seeds and starting models, and reproduces published results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from opencse.commands.declared import Typed, command
from opencse.commands.shared import (
    Data,
    Device,
    Engine,
    Fast,
    OutFolder,
    Reporter,
    RowColumns,
    Settings,
    Tasks,
    TextToRead,
    TrustRemoteCode,
)
from opencse.errors import InterruptedRunError, UserError, nearest, shortened
from opencse.numerals import number_of, whole_number
from opencse.progress import SILENT, Progress

if TYPE_CHECKING:
    from opencse.statistics import Summary
    from opencse.studies.comparison import Comparison, PaperRow, Tuned
    from opencse.studies.study import Study, StudyRecord, SuiteChoice, Variant
    from opencse.text.given import Text


def seeds_of(text: str, name: str = "--seeds") -> list[int]:
    """Reads seeds typed as ``42,43,44`` or ``42-46``; messages call them ``name``.

    Raises:
        UserError: for anything else.
    """
    seeds: list[int] = []
    for part in (part.strip() for part in text.split(",")):
        first, dash, last = part.partition("-")
        begin, end = whole_number(first), whole_number(last if dash else first)
        if part and (begin is None or end is None or end < begin):
            raise UserError(f"{name}: {shortened(part)!r} is neither a number nor a range such as 42-46")
        if begin is not None and end is not None:
            if end - begin >= MOST_SEEDS:
                raise UserError(f"{name}: {part!r} is more than {MOST_SEEDS:,} seeds")
            seeds += range(begin, end + 1)
    if not seeds:
        raise UserError(f"{name}: no seed is named; one run is made for each")
    return seeds


MOST_SEEDS = 10_000
SEEDS = (42, 43, 44, 45, 46)
TUNE_METRIC = "dev.stsb"


@command
def compare(
    text: TextToRead,
    out: OutFolder,
    recipes: Sequence[str],
    data: Data,
    *,
    tasks: Tasks = None,
    starts: Annotated[Sequence[str | Path], Typed(flags=("--starts", "-m"))] = ("opencse-mini",),
    seeds: Annotated[Sequence[int], Typed("Seeds, comma-separated or a range: 42-46.", default="42-46", parser=str)] = (
        42,
        43,
        44,
        45,
        46,
    ),
    data_seeds: Annotated[
        Sequence[int] | None,
        Typed(
            "Seeds of the data order alone, like --seeds; each is crossed with --dropout-seeds, and the variance "
            "that either adds is shown.",
            parser=str,
        ),
    ] = None,
    dropout_seeds: Annotated[
        Sequence[int] | None, Typed("Seeds of dropout alone, like --seeds; see --data-seeds.", parser=str)
    ] = None,
    fast: Fast = False,
    suites: Sequence[str] = ("sts",),
    columns: RowColumns = None,
    grid: Annotated[
        Sequence[str],
        Typed(
            "Cross the recipes with values of a setting: training.batch_size=64,128; may be repeated.", repeated=True
        ),
    ] = (),
    tune: Annotated[
        Sequence[str],
        Typed(
            "Give each recipe the best of these values of a setting, by --tune-metric at --tune-seeds: "
            "training.learning_rate=3e-5,1e-4; may be repeated.",
            repeated=True,
        ),
    ] = (),
    tune_seeds: Annotated[Sequence[int], Typed(default="1", parser=str)] = (1,),
    tune_metric: str | None = None,
    baseline: str | None = None,
    metric: str | None = None,
    dev: str | Path | None = "sample",
    kept: Annotated[
        bool, Typed("Score the encoder that --dev selects, or the encoder of the last step.", ("--kept/--last",))
    ] = False,
    settings: Settings = (),
    resamples: Annotated[int, Typed(least=0)] = 1000,
    workers: Annotated[int | None, Typed(least=1)] = None,
    engine: Engine = "local",
    precision: Literal["float32", "bf16"] = "float32",
    dry_run: bool = False,
    device: Device = None,
    trust_remote_code: TrustRemoteCode = False,
    progress: Reporter = SILENT,
    command: Annotated[str, Typed(hidden=True)] = "opencse.compare",
) -> Comparison:
    """Compares recipes over seeds and starts, with intervals and significance.

    The encoder of each run's last step is scored, because the question is what a recipe does; with ``kept`` the
    encoder that `opencse.train` would keep, which may be the start. The start is scored too: with the pooling that
    training begins with, and with its own where that differs. Every run is saved when it ends, and after an
    interruption the same call continues. The results are ``comparison.md``, ``comparison.svg`` and
    ``comparison.json`` in ``out``; with a ``grid`` of one or two settings also ``grid.svg``. With ``tune`` each recipe
    is compared with the values that are best for it, so that none loses by a setting that suits another. A dry run
    makes no run, and returns a comparison without rows.

    Example:
        >>> import opencse
        >>> recipes = ["simcse", "esimcse"]
        >>> study = opencse.compare("corpus.txt", "study", recipes, "sts-data", seeds=[1, 2, 3])  # doctest: +SKIP
        >>> study.rows[1].verdict  # doctest: +SKIP
        'esimcse is better by ...'

    Args:
        text: what every run is trained on: a file, a Hub data set id, a `Source`, or a list of texts.
        out: folder of the comparison; finished runs in it are not made again.
        recipes: names, presets may follow (``simcse:dropout-0.2``), or TOML files.
        data: folder with ``sts/``, ``transfer/``, ... (or one suite's own folder), or ``hub``.
        starts: Models to start from, comma-separated: folders, Hub ids, opencse-small, opencse-mini.
        seeds: seeds; one run for each.
        data_seeds: seeds of the data order alone: each is crossed with ``dropout_seeds``, and the variance that either
            adds is computed. The first of ``seeds`` is that of everything else.
        dropout_seeds: seeds of dropout alone; see ``data_seeds``.
        suites: Suites to evaluate, comma-separated: sts, transfer, probing, retrieval, ...
        grid: values of settings that every recipe is crossed with, ``key.path=value,value`` each.
        tune: values of settings, ``key.path=value,value`` each, of which each recipe takes the best: by ``tune_metric``
            at ``tune_seeds``. The runs that choose are in ``out``/tuning.
        tune_seeds: Seeds of the runs that --tune chooses by; none of --seeds.
        tune_metric: Score that --tune chooses by; by default dev.stsb, if dev is among --suites.
        baseline: Recipe that the others are compared with; by default the first.
        metric: Score that is compared, for instance sts.average (the default where STS is evaluated).
        dev: Data to select on: a file of graded pairs, 'sample', 'transfer' (dev accuracy of the tasks in --data; or
            transfer:FOLDER), or 'none'.
        kept: score the encoder that a run keeps, not the encoder of its last step.
        resamples: Bootstrap samples for the intervals; 0: no intervals.
        workers: Runs at a time; by default 1, with Ray one for each GPU or core.
        precision: Arithmetic of evaluation; bf16 is faster where the processor has it, and moves scores by some
            hundredths. That of training is a setting (training.precision).
        dry_run: Check everything, print the runs and their number, and stop before the first.
        command: how the comparison was started, for ``comparison.md``.

    Raises:
        UserError: for bad input, in one line.
        InterruptedRunError: on Ctrl-C; finished runs are kept.
    """
    from opencse.environment import require_packages
    from opencse.studies.comparison import TUNING, Comparison, at_an_end, best_values, suite_of_tuning
    from opencse.studies.running import plan_lines
    from opencse.studies.study import Study, Variant, first_of_each, variants
    from opencse.studies.tables import write_comparison
    from opencse.text.given import open_texts

    require_packages("opencse compare", "train", "matplotlib", "scipy")
    texts, folder = open_texts(text, columns=columns), Path(out)
    changes = tuple(settings)
    if (data_seeds or dropout_seeds) and len(seeds) > 1 and tuple(seeds) != SEEDS:
        raise UserError("--data-seeds and --dropout-seeds vary; give one seed for everything else: --seeds 42")
    first = seeds[:1]
    both = product(data_seeds or first, dropout_seeds or first) if data_seeds or dropout_seeds else ()
    apart = dict(enumerate(both, start=1))

    def study_of(
        out: Path,
        crossed: Mapping[str, Variant],
        *,
        seeds: Sequence[int] = seeds,
        pairs: dict[int, tuple[int, int]] = apart,
        suites: Sequence[str] = suites,
        metric: str | None = metric,
    ) -> Study:
        """The comparison of ``crossed``, recipes with values of settings by name."""
        study = Study(
            text=texts,
            out=out,
            recipes=list(crossed),
            starts=[str(start) for start in starts],
            seeds=list(pairs or seeds),
            suites=_suites(data, suites, tasks, fast, device),
            dev=_dev(dev, data),
            settings=changes,
            judge="kept" if kept else "last",
            device=device,
            trust_remote_code=trust_remote_code,
            metric=metric,
            precision=precision,
            variants=crossed if any(variant.values for variant in crossed.values()) else {},
            pairs=pairs,
            training_seed=next(iter(seeds), 42),
        )
        _require_apart(study, [variant.recipe for variant in crossed.values()])
        return study

    def compared(study: Study, baseline: str | None, resamples: int, tuned: Tuned | None = None) -> Comparison:
        """Makes the runs of a study and writes what they show; of a dry run it says which they are."""
        crossed = study.variants or {recipe: Variant(recipe) for recipe in study.recipes}
        row = _baseline(crossed, baseline)
        if dry_run:
            for line in plan_lines(study):
                progress.say(line)
            return Comparison(metric=study.metric or "", baseline=row, judged=study.judge, starts=[], rows=[])
        return write_comparison(
            study,
            _run_all(study, progress, workers, engine),
            row,
            metric=study.metric,
            resamples=resamples,
            command=command,
            progress=progress,
            tuned=tuned,
        )

    if not tune:
        crossed = variants(list(recipes), grid, changes)
        _baseline(crossed, baseline)
        return compared(study_of(folder, crossed), baseline, resamples)
    tried = variants(list(recipes), list(tune), changes, "--tune")
    if grid:
        raise UserError("--tune and --grid both give values; leave one of them out")
    if again := sorted(set(tune_seeds) & set(seeds)):
        raise UserError(f"--tune-seeds: {again[0]} is among --seeds too; choose by a seed that is not reported")
    tune_metric = tune_metric or TUNE_METRIC
    suite = suite_of_tuning(tune_metric, suites)
    tuning = study_of(folder / TUNING, tried, seeds=tune_seeds, pairs={}, suites=[suite], metric=tune_metric)
    best_first = first_of_each(tried)
    _baseline(best_first, baseline)
    plan_lines(study_of(folder, best_first))  # whose faults show before anything is trained
    tuning_runs = compared(tuning, None, 0)
    if dry_run:
        number = len(apart or seeds)
        progress.say(f"then       each recipe with the best of these values, at {number_of(number, 'seed')}")
        return tuning_runs
    best, tuned = best_values(tried, tuning_runs, tune_seeds)
    for name, score in tuned.best.items():
        progress.say(f"best by {tuned.metric}: {name}, {score:.2f}{at_an_end(best[name], tune)}")
    return compared(study_of(folder, best), baseline, resamples, tuned)


def _baseline(crossed: Mapping[str, Variant], name: str | None) -> str:
    """The row that the others are compared with."""
    from opencse.studies.study import find_baseline

    baseline = find_baseline(name, crossed)
    if baseline is None:
        name = name or ""
        raise UserError(f"the baseline {name!r} is not among the recipes{nearest(name, crossed)}: {', '.join(crossed)}")
    return baseline


@dataclass(frozen=True)
class Reproduction:
    """Published scores and the scores that were measured here.

    Attributes:
        row: the published scores.
        found: every measured score over the seeds, by name.
    """

    row: PaperRow
    found: dict[str, Summary]


@command
def reproduce(
    recipe: str,
    text: Annotated[Text, Typed("Text that the paper trained on: a file or a Hub data set.")],
    out: OutFolder,
    data: Data,
    *,
    tasks: Tasks = None,
    model: Annotated[str | Path | None, Typed(flags=("--model", "-m"))] = None,
    seeds: Annotated[
        Sequence[int] | None,
        Typed("Seeds: 42-46, or 1,2,3; by default the recipe's, or the paper's single one.", parser=seeds_of),
    ] = None,
    fast: Fast = False,
    suites: Sequence[str] = ("sts",),
    columns: RowColumns = None,
    dev: str | Path | None = "sample",
    settings: Settings = (),
    workers: Annotated[int, Typed(least=1)] = 1,
    device: Device = None,
    trust_remote_code: TrustRemoteCode = False,
    progress: Reporter = SILENT,
) -> Reproduction:
    """Trains and evaluates a paper's system by its recipe, and returns published and measured scores.

    Example:
        >>> import opencse
        >>> result = opencse.reproduce("simcse:bert-base", "wiki1m.txt", "row", "sts-data")  # doctest: +SKIP
        >>> result.row.expected["sts.average"], result.found["sts.average"].mean  # doctest: +SKIP
        (76.25, ...)

    Args:
        recipe: recipe with the presets of a backbone or an ablation: simcse:bert-base.
        text: what the paper trained on: a file, a Hub data set id, a `Source`, or a list of texts.
        out: folder of the runs; finished runs in it are not made again.
        data: folder with ``sts/``, ``transfer/``, ... (or one suite's own folder), or ``hub``.
        model: Model to start from, for instance a local copy; by default the paper's.
        seeds: seeds; by default the recipe's, or the paper's single one.
        suites: Suites to evaluate, comma-separated: sts, transfer, probing, retrieval, ...
        dev: Data that the best step is selected by: a file of graded pairs (papers take STS-B dev), 'sample',
            'transfer' (dev accuracy of the tasks in --data; or transfer:FOLDER), or 'none'.
        workers: Runs at a time; the cores are divided among them.

    Raises:
        UserError: for bad input, or a recipe without published scores.
        InterruptedRunError: on Ctrl-C; finished runs are kept.
    """
    from opencse.environment import require_packages
    from opencse.studies.comparison import paper_row, reproduced
    from opencse.studies.study import Study
    from opencse.text.given import open_texts

    require_packages("opencse reproduce", "train", "scipy")
    changes, dev = tuple(settings), _dev(dev, data)
    row = paper_row(recipe, None if model is None else str(model))
    study = Study(
        text=open_texts(text, columns=columns),
        out=Path(out),
        recipes=[recipe],
        starts=[row.start],
        seeds=row.seeds if seeds is None else list(seeds),
        suites=_suites(data, suites, tasks, fast, device, apart=row.judged.on_target),
        dev=dev,
        settings=changes,
        judge="kept",
        device=device,
        trust_remote_code=trust_remote_code,
        judged=row.judged,
        groupings=row.groupings,
    )
    _require_apart(study, [recipe])
    for line in row.lines("none" if dev is None else str(dev), len(changes)):
        progress.say(line)
    return Reproduction(row, reproduced(_run_all(study, progress, workers)))


def _require_apart(study: Study, recipes: Sequence[str]) -> None:
    """Refuses an ``out`` that is, or would replace, what the study reads, or that holds anything but a comparison."""
    from opencse.documents.dev_choice import Dev
    from opencse.outputs import paths_of, require_apart
    from opencse.studies.running import require_study
    from opencse.studies.tables import WRITTEN

    files = [recipe for recipe in recipes if recipe.endswith(".toml")]
    read = paths_of(study.text, Dev.of(study.dev).source, *files, *(suite.folder for suite in study.suites))
    require_apart(study.out, read=read, models=paths_of(*study.starts), replaces=False)
    for name in WRITTEN:
        require_apart(study.out / name, read=read)
    require_study(study.out)


def _dev(dev: str | Path | None, data: str | Path) -> str | Path | None:
    """``transfer`` with the folder of the tasks: the folder of the evaluation data."""
    from opencse.evaluation.suites import suite_folder
    from opencse.evaluation.transfer import Transfer

    if str(dev) != Transfer.name:
        return dev
    return f"{Transfer.name}:{suite_folder(data, Transfer.name)}"


def _suites(
    data: str | Path,
    names: Sequence[str],
    tasks: Sequence[str] | None,
    fast: bool,
    device: str | None,
    apart: bool = False,
) -> list[SuiteChoice]:
    """The suites that are evaluated, each with its folder; ``apart``: each task by itself."""
    from opencse.evaluation.suite import Options
    from opencse.evaluation.suites import suite_folder, suite_named
    from opencse.studies.study import SuiteChoice

    if tasks is not None and len(names) > 1:
        raise UserError("--tasks needs a single suite; compare on the suites one by one, or leave --tasks out")
    how = Options(tasks=tasks, fast=fast, device=device, apart=apart)
    return [SuiteChoice(suite_named(name).name, suite_folder(data, name, names), how) for name in names]


def _run_all(
    study: Study, progress: Progress, workers: int | None, engine: Literal["local", "ray"] = "local"
) -> list[StudyRecord]:
    """Makes the runs that are missing."""
    from opencse.studies.running import run_study

    try:
        return run_study(study, workers=workers, engine=engine, progress=progress)
    except (InterruptedRunError, KeyboardInterrupt):
        progress.finish()
        message = f"stopped; finished runs are kept in {study.out}, and the same command continues"
        raise InterruptedRunError(message) from None
