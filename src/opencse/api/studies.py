"""Recipes over seeds and starts: `compare` them, and `reproduce` a paper's row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from opencse.adapting.dev_choice import NONE, SAMPLE
from opencse.engines.choice import Engine
from opencse.environment import require_packages
from opencse.errors import InterruptedRunError, UserError, nearest, plain_failures
from opencse.evaluation.models.opening import Precision
from opencse.evaluation.suite import Options
from opencse.evaluation.suites import suite_folder, suite_named
from opencse.foreign import checks_trust
from opencse.model_folder.locate import BUILTIN
from opencse.outputs import paths_of, require_apart
from opencse.progress import Progress, Silent
from opencse.statistics import Summary
from opencse.studies.comparison import Comparison
from opencse.studies.files import WRITTEN, write_comparison
from opencse.studies.record import StudyRecord
from opencse.studies.reproduction import PaperRow, paper_row, reproduced
from opencse.studies.running import require_study, run_study
from opencse.studies.study import Study, SuiteChoice
from opencse.text.given import Text, open_texts

SEEDS = (42, 43, 44, 45, 46)


@plain_failures
@checks_trust
def compare(
    text: Text,
    out: str | Path,
    recipes: Sequence[str],
    data: str | Path,
    *,
    starts: Sequence[str] = (BUILTIN,),
    seeds: Sequence[int] = SEEDS,
    suites: Sequence[str] = ("sts",),
    fast: bool = False,
    baseline: str | None = None,
    metric: str | None = None,
    dev: str | Path | None = "sample",
    kept: bool = False,
    columns: Sequence[str] | None = None,
    settings: Iterable[str] = (),
    resamples: int = 1_000,
    workers: int | None = None,
    engine: Engine = "local",
    precision: Precision = "float32",
    device: str | None = None,
    trust_remote_code: bool = False,
    command: str = "opencse.compare",
    progress: Progress | None = None,
) -> Comparison:
    """Compares recipes over seeds and starts, with intervals and significance.

    What is scored is the encoder of each run's last step, because the question is what a recipe does; with ``kept``
    what `opencse.train` would keep, which may be the start. The start stands beside them as it is read where training
    begins, and as it was given where that differs. Every run is kept as it finishes, and the same call goes on where
    it was broken off. ``out`` ends with ``comparison.md``, ``comparison.svg`` and ``comparison.json``.

    Args:
        text: what every run is trained on: a file, a Hub data set id, a `Source`, or a list of texts.
        out: folder of the comparison; what it holds is kept.
        recipes: names, presets may follow (``simcse:dropout-0.2``), or TOML files.
        data: folder with ``sts/``, ``transfer/``, ... (or one suite's own folder), or ``hub``.
        starts: folders, Hub ids, ``opencse-mini``.
        seeds: one run each.
        suites: what is scored: ``sts``, ``transfer``, ...
        fast: transfer tasks with SentEval's fast classifier.
        baseline: the recipe that others stand beside; the first one.
        metric: what is compared; ``sts.average`` where it is there.
        dev: pairs to select on; see `opencse.train`.
        kept: score the encoder that a run keeps, not its last step's.
        columns: of the text; see `opencse.train`.
        settings: ``key.path=value`` each, of every run.
        resamples: bootstrap samples of the sentence pairs; 0: none.
        workers: runs at a time, each with its share of the cores; one, or with ``ray`` one for each GPU, else core.
        engine: ``local``, processes of this machine; ``ray``, tasks of a Ray cluster, whose nodes find ``out``, data
            and starts under the same names.
        precision: arithmetic of evaluation; ``bf16`` is faster where the processor has it, and moves a score by some
            hundredths. That of training is a setting (``training.precision``).
        device: where to run; a GPU if there is one.
        trust_remote_code: run the Python code that the starts' folders bring; see `SentenceEncoder.load`.
        command: how the comparison was asked for, for ``comparison.md``.
        progress: hears of it.

    Raises:
        UserError: for bad input, in one line.
        InterruptedRunError: on Ctrl-C; what is finished is kept.
    """
    require_packages("opencse compare", "train", "matplotlib", "scipy")
    tell, names = progress or Silent(), list(recipes)
    beside = baseline or (names[0] if names else "")
    if beside not in names:
        raise UserError(f"the baseline {beside!r} is not among the recipes{nearest(beside, names)}: {', '.join(names)}")
    study = Study(
        text=open_texts(text, columns=columns),
        out=Path(out),
        recipes=names,
        starts=list(starts),
        seeds=list(seeds),
        suites=_suites(data, suites, fast, device),
        dev=dev,
        settings=tuple(settings),
        judge="kept" if kept else "last",
        device=device,
        trust_remote_code=trust_remote_code,
        metric=metric,
        precision=precision,
    )
    _require_apart(study, recipes)
    records = _run_all(study, tell, workers, engine)
    return write_comparison(study, records, beside, metric=metric, resamples=resamples, command=command, progress=tell)


@dataclass(frozen=True)
class Reproduction:
    """A paper's row beside what was got.

    Attributes:
        row: what was published.
        found: every score over the seeds, by name.
    """

    row: PaperRow
    found: dict[str, Summary]


@plain_failures
@checks_trust
def reproduce(
    recipe: str,
    text: Text,
    out: str | Path,
    data: str | Path,
    *,
    model: str | Path | None = None,
    seeds: Sequence[int] | None = None,
    suites: Sequence[str] = ("sts",),
    fast: bool = False,
    dev: str | Path | None = "sample",
    columns: Sequence[str] | None = None,
    settings: Iterable[str] = (),
    workers: int = 1,
    device: str | None = None,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> Reproduction:
    """Runs a paper's row as the recipe has it, and sets the published scores beside those got.

    Args:
        recipe: a recipe with presets, of a backbone or an ablation: ``simcse:bert-base``.
        text: what the paper trained on: a file, a Hub data set id, a `Source`, or a list of texts.
        out: folder of the runs; what is in it is not made again.
        data: folder with ``sts/``, ``transfer/``, ... (or one suite's own folder), or ``hub``.
        model: another start than the paper's, for instance a local copy.
        seeds: the recipe's own by default, else the paper's one.
        suites: what is scored: ``sts``, ``transfer``, ...
        fast: transfer tasks with SentEval's fast classifier.
        dev: pairs to select on (the papers': STS-B dev).
        columns: of the text; see `opencse.train`.
        settings: ``key.path=value`` each, of every run.
        workers: runs at a time, each with its share of the cores.
        device: where to run; a GPU if there is one.
        trust_remote_code: run the Python code that the start's folder brings; see `SentenceEncoder.load`.
        progress: hears of it.

    Raises:
        UserError: for bad input, or a recipe without published scores.
        InterruptedRunError: on Ctrl-C; what is finished is kept.
    """
    require_packages("opencse reproduce", "train", "scipy")
    tell, changed = progress or Silent(), tuple(settings)
    row = paper_row(recipe, None if model is None else str(model))
    study = Study(
        text=open_texts(text, columns=columns),
        out=Path(out),
        recipes=[recipe],
        starts=[row.start],
        seeds=row.seeds if seeds is None else list(seeds),
        suites=_suites(data, suites, fast, device),
        dev=dev,
        settings=changed,
        judge="kept",
        device=device,
        trust_remote_code=trust_remote_code,
    )
    _require_apart(study, [recipe])
    for line in row.lines("none" if dev is None else str(dev), len(changed)):
        tell.say(line)
    return Reproduction(row, reproduced(_run_all(study, tell, workers)))


def _require_apart(study: Study, recipes: Sequence[str]) -> None:
    """Refuses an ``out`` that is, or would replace, what the study reads, or that holds anything but a comparison."""
    dev = None if study.dev in (SAMPLE, NONE) else study.dev
    files = [recipe for recipe in recipes if recipe.endswith(".toml")]
    read = paths_of(study.text, dev, *files, *(suite.folder for suite in study.suites))
    require_apart(study.out, read=read, models=paths_of(*study.starts), replaces=False)
    for name in WRITTEN:
        require_apart(study.out / name, read=read)
    require_study(study.out)


def _suites(data: str | Path, names: Sequence[str], fast: bool, device: str | None) -> list[SuiteChoice]:
    """The suites named, each with its folder."""
    options = Options(fast=fast, device=device)
    return [
        SuiteChoice(suite_named(name).name, suite_folder(data, name, alone=len(names) == 1), options) for name in names
    ]


def _run_all(
    study: Study, progress: Progress, workers: int | None = None, engine: Engine = "local"
) -> list[StudyRecord]:
    """Makes what is missing."""
    try:
        return run_study(study, workers=workers, engine=engine, progress=progress)
    except (InterruptedRunError, KeyboardInterrupt):
        progress.finish()
        told = f"stopped; what is finished is kept in {study.out}, and the same command goes on"
        raise InterruptedRunError(told) from None
