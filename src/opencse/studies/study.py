"""Describes a comparison and the runs that it is made of."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from opencse.adapting.selection import Selector
from opencse.errors import UserError, nearest
from opencse.evaluation.sts.result import Grouping
from opencse.evaluation.suite import Options
from opencse.evaluation.suites import suite_named
from opencse.kernels.precision import PrecisionName
from opencse.recipes.judged import Judged
from opencse.runs.job import TrainJob
from opencse.runs.start import Reading
from opencse.studies.grid import Variant
from opencse.studies.record import Which
from opencse.text.given import TextSource


@dataclass(frozen=True)
class SuiteChoice:
    """A suite of tasks that is evaluated, and its folder.

    Attributes:
        name: name of the suite.
        folder: folder of its tasks.
        options: how it is evaluated.
    """

    name: str
    folder: Path
    options: Options = field(default_factory=Options)


@dataclass(frozen=True)
class RunSpec:
    """One run of a comparison.

    Attributes:
        recipe: name with presets, or a TOML file.
        start: the model that training begins with.
        seed: of order, dropout, augmentation and new weights; the number of the pair in ``Study.pairs`` where there are
            some.
        pair: the seeds of data order and dropout, where these are seeded apart.
    """

    recipe: str
    start: str
    seed: int
    pair: tuple[int, int] | None = field(default=None, compare=False)

    def __str__(self) -> str:
        seeds = f"seed {self.seed}" if self.pair is None else "data order {}, dropout {}".format(*self.pair)
        return f"{self.recipe} from {self.start}, {seeds}"

    def names(self) -> dict[str, Any]:
        """What identifies the run in a `StudyRecord`."""
        data_seed, dropout_seed = self.pair or (None, None)
        return {
            "recipe": self.recipe,
            "start": self.start,
            "seed": self.seed,
            "data_seed": data_seed,
            "dropout_seed": dropout_seed,
        }


def no_score(metric: str, known: Collection[str]) -> UserError:
    """The error of a metric that is not among the known scores."""
    return UserError(f"no score {metric!r}{nearest(metric, known)}; there are: {', '.join(known)}")


@dataclass(frozen=True)
class Study:
    """Recipes x starts x seeds, each trained on one text and evaluated on the same suites.

    Attributes:
        text: the text that every run is trained on.
        out: folder of the comparison.
        recipes: names with presets, or TOML files; or the names of ``variants``.
        starts: folders, Hub ids, ``opencse-mini``.
        seeds: one run each.
        suites: the suites that are evaluated.
        dev: pairs to select on; see `opencse.train`.
        settings: ``key.path=value`` of every run.
        judge: which encoder of a run is evaluated; the last step's shows what a recipe does.
        device: where to run.
        trust_remote_code: run the Python code that the starts' folders bring; see `SentenceEncoder.load`.
        precision: arithmetic in which encoders are evaluated; that of training is a setting.
        judged: whether the runs are trained, and what is applied to the vectors of their encoders.
        groupings: of STS's pairs, whose scores are added to the results as ``sts_wmean.TASK``.
        variants: by name, a recipe with values of a grid.
        pairs: by number, the seeds of data order and dropout, where these are seeded apart; ``seeds`` are the numbers.
        training_seed: of everything else in runs with ``pairs``.
        metric: the score that will be compared, so that one that no suite gives is refused before the first run.
    """

    text: TextSource
    out: Path
    recipes: Sequence[str]
    starts: Sequence[str]
    seeds: Sequence[int]
    suites: Sequence[SuiteChoice]
    dev: str | Path | None = "sample"
    settings: Sequence[str] = field(default_factory=tuple)
    judge: Which = "last"
    device: str | None = None
    trust_remote_code: bool = False
    metric: str | None = None
    precision: PrecisionName = "float32"
    judged: Judged = field(default_factory=Judged)
    groupings: Sequence[Grouping] = ()
    variants: Mapping[str, Variant] = field(default_factory=dict)
    pairs: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    training_seed: int = 42

    def __post_init__(self) -> None:
        if self.out.exists() and not self.out.is_dir():
            raise UserError(f"{self.out}: is a file; a comparison is kept in a folder")
        for kind, values in (("recipe", self.recipes), ("start", self.starts), ("seed", self.seeds)):
            if not values:
                raise UserError(f"no {kind} given; a comparison needs at least one")
            names = [folder_name(str(value)) for value in values]
            for name, value in zip(names, values, strict=True):
                if names.count(name) > 1:
                    raise UserError(f"two {kind}s would share the folder {name!r} ({value} is one of them)")
        pairs = list(self.pairs.values())
        if again := next((pair for pair in pairs if pairs.count(pair) > 1), None):
            raise UserError(f"data order {again[0]} with dropout {again[1]} is there twice; name each seed once")
        if not self.suites:
            raise UserError("no suite given; a comparison evaluates on at least one")
        if self.precision not in get_args(PrecisionName):
            raise UserError(f"unknown precision {self.precision!r}; known: {', '.join(get_args(PrecisionName))}")
        scored = [suite_named(choice.name).key() for choice in self.suites]
        if self.metric is not None and self.metric.partition(".")[0] not in scored:
            raise UserError(
                f"unknown metric {self.metric!r}; the scores of these suites are called "
                + ", ".join(f"{name}.TASK" for name in scored)
            )
        keys = {setting.split("=")[0].strip() for setting in self.settings}
        keys |= {key for variant in self.variants.values() for key in variant.values}
        if "training.seed" in keys:
            raise UserError("training.seed is set by the comparison; choose its seeds instead")
        if self.pairs and (set_too := sorted(keys & {"training.data_seed", "training.dropout_seed"})):
            raise UserError(f"{set_too[0]} is set by the comparison; leave it out of --set and --grid")

    def require_metric(self, known: Collection[str]) -> None:
        """Refuses a metric that is none of the scores that the runs will have.

        Args:
            known: names of the scores; see `opencse.evaluation.suite.Suite.score_names`.

        Raises:
            UserError: naming the nearest score, and all.
        """
        if self.metric is not None and self.metric not in known:
            raise no_score(self.metric, known)

    def runs(self) -> Iterator[RunSpec]:
        """All runs, seed by seed, so that an interrupted comparison has fewer seeds, not fewer recipes."""
        for seed in self.seeds:
            for start in self.starts:
                for recipe in self.recipes:
                    yield RunSpec(recipe, start, seed, self.pairs.get(seed))

    def job(self, run: RunSpec) -> TrainJob:
        """The training job of ``run``."""
        variant = self.variants.get(run.recipe, Variant(run.recipe))
        seeds: tuple[str, ...] = (f"training.seed={run.seed}",)
        if run.seed in self.pairs:
            order, dropout = self.pairs[run.seed]
            seeds = (f"training.seed={self.training_seed}", f"training.data_seed={order}")
            seeds = (*seeds, f"training.dropout_seed={dropout}")
        settings = (*self.settings, *variant.settings, *seeds)
        return TrainJob(
            text=self.text,
            recipe=variant.recipe,
            model=run.start,
            preset=None,
            settings=settings,
            dev=self.dev,
            device=self.device,
            trust_remote_code=self.trust_remote_code,
        )

    def require_fitting(self, dev: Selector | None) -> None:
        """Refuses recipes that cannot work with the text or the dev data; see `TrainJob.require_fitting`.

        Args:
            dev: what the encoder to keep of a run is selected by.

        Raises:
            UserError: naming the recipe and the fix.
        """
        for run in self.runs() if self.judged.trained else ():
            if run.seed == self.seeds[0]:
                try:
                    self.job(run).require_fitting(dev)
                except UserError as error:
                    raise UserError(f"{run.recipe}: {error}") from None

    def folder(self, run: RunSpec) -> Path:
        """The folder of ``run``."""
        pair = self.pairs.get(run.seed)
        last = str(run.seed) if pair is None else "data-{}-dropout-{}".format(*pair)
        return self.out / "runs" / folder_name(run.start) / folder_name(run.recipe) / last

    def readings(self, start: str) -> list[Reading]:
        """The ways to evaluate ``start``: as training begins with it, and with its own pooling where that differs."""
        seed = self.seeds[0]
        starts = [self.job(RunSpec(recipe, start, seed)).start() for recipe in self.recipes]
        ours = [one.reading for one in starts]
        return list(dict.fromkeys([*ours, *(reading for one in starts for reading in one.readings)]))

    def start_folder(self, start: str, reading: Reading) -> Path:
        """The folder of an untrained start's scores in one reading."""
        return self.out / "starts" / folder_name(start) / folder_name(str(reading))

    def request_of(self, run: RunSpec) -> dict[str, Any]:
        """Everything that determines the results of ``run``, as plain values.

        Raises:
            UserError: for a fault in the recipe or a setting.
        """
        job = self.job(run)
        start = job.start()
        return {
            "recipe": start.recipe.model_dump(mode="json", exclude={"presets"}),
            "presets": job.resolved.preset,
            "model": start.model,
            "source": self.text.location,
            "dev": None if self.dev is None else str(self.dev),
            **self.evaluation_settings(),
        }

    def evaluation_settings(self) -> dict[str, Any]:
        """The settings that determine how encoders are evaluated, as plain values."""
        return {
            "judge": self.judge,
            "precision": None if self.precision == "float32" else self.precision,
            "trust_remote_code": self.trust_remote_code or None,
            "judged": str(self.judged) or None,
            "suites": {
                choice.name: {
                    "folder": str(choice.folder),
                    "tasks": None if choice.options.tasks is None else list(choice.options.tasks),
                    "fast": choice.options.fast,
                    "logistic": choice.options.logistic,
                }
                for choice in self.suites
            },
        }


def folder_name(text: str) -> str:
    """A name for a folder: the last part of a path, in letters, digits and ``+ - . _`` only.

    Example:
        >>> folder_name("models/my encoder")
        'my_encoder'
    """
    last = text.rstrip("/\\").replace("\\", "/").rsplit("/", 1)[-1]
    return re.sub(r"[^A-Za-z0-9+.\-]+", "_", last) or "_"
