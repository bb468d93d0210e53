"""Compares recipes over seeds and starting models, and reproduces published results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Unpack

from opencse.adapting.dev_choice import dev_path
from opencse.api.declaring import defaults_of, public
from opencse.api.options.studies import CompareOptions, ReproduceOptions, StudyOptions
from opencse.api.study_tuning import at_an_end, best_values, options_of_tuning
from opencse.engines.choice import Engine
from opencse.environment import require_packages
from opencse.errors import InterruptedRunError, UserError, nearest
from opencse.evaluation.suite import Options
from opencse.evaluation.suites import suite_folder, suite_named
from opencse.evaluation.transfer.score import Transfer
from opencse.numerals import number_of
from opencse.outputs import paths_of, require_apart
from opencse.progress import Progress, Silent
from opencse.statistics import Summary
from opencse.studies.comparison import TUNING, Comparison, Tuned
from opencse.studies.files import WRITTEN, write_comparison
from opencse.studies.grid import Variant, find_baseline, first_of_each, variants
from opencse.studies.record import StudyRecord
from opencse.studies.reproduction import PaperRow, paper_row, reproduced
from opencse.studies.running import plan_lines, require_study, run_study
from opencse.studies.study import Study, SuiteChoice
from opencse.text.given import Text, TextSource, open_texts


@public
def compare(
    text: Text, out: str | Path, recipes: Sequence[str], data: str | Path, **options: Unpack[CompareOptions]
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
        **options: see `CompareOptions`.

    Raises:
        UserError: for bad input, in one line.
        InterruptedRunError: on Ctrl-C; finished runs are kept.
    """
    require_packages("opencse compare", "train", "matplotlib", "scipy")
    texts = open_texts(text, columns=options["columns"])
    if options["tune"]:
        return _compare_tuned(texts, Path(out), recipes, data, options)
    crossed = variants(list(recipes), options["grid"], tuple(options["settings"]))
    return _compare_crossed(_study(texts, Path(out), crossed, data, options), options)


def _study(
    texts: TextSource, out: Path, crossed: Mapping[str, Variant], data: str | Path, options: CompareOptions
) -> Study:
    """The comparison of ``crossed``, recipes with values of settings by name."""
    pairs = _pairs(options)
    study = Study(
        text=texts,
        out=out,
        recipes=list(crossed),
        starts=[str(start) for start in options["starts"]],
        seeds=list(pairs or options["seeds"]),
        suites=_suites(data, options),
        dev=_dev(options["dev"], data),
        settings=tuple(options["settings"]),
        judge="kept" if options["kept"] else "last",
        device=options["device"],
        trust_remote_code=options["trust_remote_code"],
        metric=options["metric"],
        precision=options["precision"],
        variants=crossed if any(variant.values for variant in crossed.values()) else {},
        pairs=pairs,
        training_seed=next(iter(options["seeds"]), 42),
    )
    _baseline(crossed, options)
    _require_apart(study, [variant.recipe for variant in crossed.values()])
    return study


def _baseline(crossed: Mapping[str, Variant], options: CompareOptions) -> str:
    """The row that the others are compared with."""
    baseline = find_baseline(options["baseline"], crossed)
    if baseline is None:
        name = options["baseline"] or ""
        raise UserError(f"the baseline {name!r} is not among the recipes{nearest(name, crossed)}: {', '.join(crossed)}")
    return baseline


def _compare_crossed(study: Study, options: CompareOptions, tuned: Tuned | None = None) -> Comparison:
    """Makes the runs of a study and writes what they show; of a dry run it says which they are."""
    progress = options["progress"] or Silent()
    crossed = study.variants or {recipe: Variant(recipe) for recipe in study.recipes}
    baseline = _baseline(crossed, options)
    if options["dry_run"]:
        for line in plan_lines(study):
            progress.say(line)
        return Comparison(metric=options["metric"] or "", baseline=baseline, judged=study.judge, starts=[], rows=[])
    return write_comparison(
        study,
        _run_all(study, progress, options["workers"], options["engine"]),
        baseline,
        metric=options["metric"],
        resamples=options["resamples"],
        command=options["command"],
        progress=progress,
        tuned=tuned,
    )


def _compare_tuned(
    texts: TextSource, out: Path, recipes: Sequence[str], data: str | Path, options: CompareOptions
) -> Comparison:
    """Chooses the values of each recipe at seeds of their own, and compares the recipes with these."""
    progress, tune = options["progress"] or Silent(), list(options["tune"])
    tried = variants(list(recipes), tune, tuple(options["settings"]), "--tune")
    tuning = options_of_tuning(options)
    study_of_tuning = _study(texts, out / TUNING, tried, data, tuning)
    plan_lines(_study(texts, out, first_of_each(tried), data, options))  # whose faults show before anything is trained
    tuning_runs = _compare_crossed(study_of_tuning, tuning)
    if options["dry_run"]:
        seeds = len(_pairs(options) or options["seeds"])
        progress.say(f"then       each recipe with the best of these values, at {number_of(seeds, 'seed')}")
        return tuning_runs
    best, tuned = best_values(tried, tuning_runs, tuning["seeds"])
    for name, score in tuned.best.items():
        progress.say(f"best by {tuned.metric}: {name}, {score:.2f}{at_an_end(best[name], tune)}")
    return _compare_crossed(_study(texts, out, best, data, options), options, tuned)


@dataclass(frozen=True)
class Reproduction:
    """Published scores and the scores that were measured here.

    Attributes:
        row: the published scores.
        found: every measured score over the seeds, by name.
    """

    row: PaperRow
    found: dict[str, Summary]


@public
def reproduce(
    recipe: str, text: Text, out: str | Path, data: str | Path, **options: Unpack[ReproduceOptions]
) -> Reproduction:
    """Trains and evaluates a paper's system by its recipe, and returns published and measured scores.

    Example:
        >>> import opencse
        >>> result = opencse.reproduce("simcse:bert-base", "wiki1m.txt", "row", "sts-data")  # doctest: +SKIP
        >>> result.row.expected["sts.average"], result.found["sts.average"].mean  # doctest: +SKIP
        (76.25, ...)

    Args:
        recipe: a recipe with presets, of a backbone or an ablation: ``simcse:bert-base``.
        text: what the paper trained on: a file, a Hub data set id, a `Source`, or a list of texts.
        out: folder of the runs; finished runs in it are not made again.
        data: folder with ``sts/``, ``transfer/``, ... (or one suite's own folder), or ``hub``.
        **options: see `ReproduceOptions`.

    Raises:
        UserError: for bad input, or a recipe without published scores.
        InterruptedRunError: on Ctrl-C; finished runs are kept.
    """
    require_packages("opencse reproduce", "train", "scipy")
    progress, settings = options["progress"] or Silent(), tuple(options["settings"])
    model, seeds, dev = options["model"], options["seeds"], _dev(options["dev"], data)
    row = paper_row(recipe, None if model is None else str(model))
    study = Study(
        text=open_texts(text, columns=options["columns"]),
        out=Path(out),
        recipes=[recipe],
        starts=[row.start],
        seeds=row.seeds if seeds is None else list(seeds),
        suites=_suites(data, options, apart=row.judged.on_target),
        dev=dev,
        settings=settings,
        judge="kept",
        device=options["device"],
        trust_remote_code=options["trust_remote_code"],
        judged=row.judged,
        groupings=row.groupings,
    )
    _require_apart(study, [recipe])
    for line in row.lines("none" if dev is None else str(dev), len(settings)):
        progress.say(line)
    return Reproduction(row, reproduced(_run_all(study, progress, options["workers"])))


def _require_apart(study: Study, recipes: Sequence[str]) -> None:
    """Refuses an ``out`` that is, or would replace, what the study reads, or that holds anything but a comparison."""
    files = [recipe for recipe in recipes if recipe.endswith(".toml")]
    read = paths_of(study.text, dev_path(study.dev), *files, *(suite.folder for suite in study.suites))
    require_apart(study.out, read=read, models=paths_of(*study.starts), replaces=False)
    for name in WRITTEN:
        require_apart(study.out / name, read=read)
    require_study(study.out)


def _pairs(options: CompareOptions) -> dict[int, tuple[int, int]]:
    """The seeds of data order and dropout of each run by number, from 1; empty where they are not seeded apart."""
    data, dropout, seeds = options["data_seeds"], options["dropout_seeds"], tuple(options["seeds"])
    if not data and not dropout:
        return {}
    if len(seeds) > 1 and seeds != defaults_of(CompareOptions)["seeds"]:
        raise UserError("--data-seeds and --dropout-seeds vary; give one seed for everything else: --seeds 42")
    rest = seeds[:1]
    return dict(enumerate(product(data or rest, dropout or rest), start=1))


def _dev(dev: str | Path | None, data: str | Path) -> str | Path | None:
    """``transfer`` with the folder of the tasks: that of the evaluation data."""
    if str(dev) != Transfer.name:
        return dev
    return f"{Transfer.name}:{suite_folder(data, Transfer.name)}"


def _suites(data: str | Path, options: StudyOptions, *, apart: bool = False) -> list[SuiteChoice]:
    """The suites that are evaluated, each with its folder; ``apart``: each task by itself."""
    names, tasks = options["suites"], options["tasks"]
    if tasks is not None and len(names) > 1:
        raise UserError("--tasks needs a single suite; compare on the suites one by one, or leave --tasks out")
    how = Options(tasks=tasks, fast=options["fast"], device=options["device"], apart=apart)
    return [SuiteChoice(suite_named(name).name, suite_folder(data, name, names), how) for name in names]


def _run_all(
    study: Study, progress: Progress, workers: int | None = None, engine: Engine = "local"
) -> list[StudyRecord]:
    """Makes the runs that are missing."""
    try:
        return run_study(study, workers=workers, engine=engine, progress=progress)
    except (InterruptedRunError, KeyboardInterrupt):
        progress.finish()
        message = f"stopped; finished runs are kept in {study.out}, and the same command continues"
        raise InterruptedRunError(message) from None
