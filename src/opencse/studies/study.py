"""Describes a comparison: the recipes with values of a grid, the runs that it is made of, and the record of each."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any, Literal

from pydantic import AwareDatetime, Field, FiniteFloat

from opencse.environment import Environment, installed
from opencse.errors import UserError, nearest
from opencse.evaluation.record import DataRecord
from opencse.evaluation.sts import Grouping
from opencse.evaluation.suite import Options
from opencse.evaluation.suites import suite_named
from opencse.kernels.precision import PrecisionName
from opencse.recipes.files import Judged
from opencse.recipes.recipe import resolve_recipe
from opencse.records import read_record, save_json
from opencse.runs.record import Contents, Outcome
from opencse.runs.run import Run
from opencse.runs.start import Reading
from opencse.settings import Settings
from opencse.text.given import TextSource
from opencse.training.selection import Selector

_OPENING, _CLOSING = "[{(", "]})"


@dataclass(frozen=True)
class Variant:
    """A recipe with one combination of the values of a grid.

    Attributes:
        recipe: name with presets, or a TOML file.
        values: the text of each value by dotted key, as typed; empty without a grid.
    """

    recipe: str
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> tuple[str, ...]:
        """The values as settings of a run."""
        return tuple(f"{key}={value}" for key, value in self.values.items())


def parse_grid(grid: Iterable[str], option: str = "--grid") -> dict[str, list[str]]:
    """Reads ``key.path=value,value`` of each entry: the values by key, as ``--set`` reads them.

    Commas within brackets, braces or quotes belong to a value. Messages call the list ``option``.

    Example:
        >>> parse_grid(["training.batch_size=64,128", "objective.negatives.layers.layers=[1,2],[3]"])
        {'training.batch_size': ['64', '128'], 'objective.negatives.layers.layers': ['[1,2]', '[3]']}

    Raises:
        UserError: for an entry without values, or a key or value that is there twice.
    """
    values: dict[str, list[str]] = {}
    for entry in grid:
        key, sign, text = entry.partition("=")
        key, parts = key.strip(), _split(text)
        if not sign or not key or not all(parts):
            raise UserError(
                f"{option} {entry}: key.path=value,value is expected, for instance training.batch_size=64,128"
            )
        if key in values:
            raise UserError(f"{option} {key}: is there twice; list all its values in one: {key}=64,128")
        if len(set(parts)) < len(parts):
            raise UserError(f"{option} {entry}: a value is there twice")
        values[key] = parts
    return values


def variants(
    recipes: Sequence[str], grid: Iterable[str], settings: Sequence[str] = (), option: str = "--grid"
) -> dict[str, Variant]:
    """Crosses ``recipes`` with all combinations of the values of ``grid``; by the name that tables show.

    Args:
        recipes: names with presets, or TOML files.
        grid: see `parse_grid`.
        settings: ``key.path=value`` of every run, which the grid must not repeat.
        option: the name of the grid in messages.

    Raises:
        UserError: for an unknown key or a wrong value, naming the nearest key, or for two values that are the same.

    Example:
        >>> list(variants(["simcse"], ["training.batch_size=64,128"]))
        ['simcse (batch_size=64)', 'simcse (batch_size=128)']
    """
    values = parse_grid(grid, option)
    fixed = {setting.partition("=")[0].strip() for setting in settings}
    for key in values:
        if key in fixed:
            raise UserError(f"{key} is in --set and in {option}; leave it out of one")
        if key == "training.seed":
            raise UserError("training.seed is set by the comparison; choose its seeds with --seeds instead")
    labels = _labels(values)
    crossed: dict[str, Variant] = {}
    for recipe in recipes:
        resolved: dict[str, str] = {}
        for combination in product(*values.values()):
            one = Variant(recipe, dict(zip(values, combination, strict=True)))
            label = ", ".join(f"{labels[key]}={value}" for key, value in one.values.items())
            name = f"{recipe} ({label})" if label else recipe
            if name in crossed:
                raise UserError(f"the recipe {recipe!r} is named twice; name it once")
            if values:
                content = _content(one, settings, option)
                if (same := resolved.setdefault(content, name)) != name:
                    raise UserError(f"{option}: {same} and {name} are the same; name each value once")
            crossed[name] = one
    return crossed


def find_baseline(name: str | None, crossed: Mapping[str, Variant]) -> str | None:
    """The row that ``name`` means: itself, or the first row of that recipe; None if there is none.

    Example:
        >>> find_baseline("simcse", variants(["dcl-post", "simcse"], ["training.batch_size=64,128"]))
        'simcse (batch_size=64)'
    """
    if name is None or name in crossed:
        return name or next(iter(crossed), None)
    return next((row for row, one in crossed.items() if one.recipe == name), None)


def first_of_each(crossed: Mapping[str, Variant]) -> dict[str, Variant]:
    """Of each recipe the first variant."""
    return best_of_each(crossed, dict.fromkeys(crossed, 0.0))


def best_of_each(crossed: Mapping[str, Variant], scores: Mapping[str, float]) -> dict[str, Variant]:
    """Of each recipe the variant with the highest score; of equal ones the first.

    Args:
        crossed: see `variants`.
        scores: by the same names.

    Example:
        >>> tried = variants(["simcse", "esimcse"], ["training.batch_size=64,128"])
        >>> list(best_of_each(tried, dict(zip(tried, [70.1, 70.4, 71.0, 70.9]))))
        ['simcse (batch_size=128)', 'esimcse (batch_size=64)']
    """
    best: dict[str, str] = {}
    for name, variant in crossed.items():
        if variant.recipe not in best or scores[name] > scores[best[variant.recipe]]:
            best[variant.recipe] = name
    return {name: crossed[name] for name in best.values()}


def _content(variant: Variant, settings: Sequence[str], option: str) -> str:
    """All settings of a variant as text; refuses a key or a value that the recipe does not take."""
    try:
        return resolve_recipe(variant.recipe, overrides=(*settings, *variant.settings)).recipe.model_dump_json()
    except UserError as error:
        message = str(error)
        at_fault = next((one for one in variant.settings if message.startswith(f"--set {one}")), None)
        raise UserError(message if at_fault is None else f"{option}{message.removeprefix('--set')}") from None


def _labels(values: Mapping[str, object]) -> dict[str, str]:
    """A short name of each key: its last step, or all of it where two keys end the same way."""
    last = {key: key.rsplit(".", 1)[-1] for key in values}
    return {key: name if [*last.values()].count(name) == 1 else key for key, name in last.items()}


def _split(text: str) -> list[str]:
    """Splits at the commas outside brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in _OPENING:
            depth += 1
        elif letter in _CLOSING:
            depth -= 1
        elif letter == "," and not depth:
            parts.append("")
            continue
        parts[-1] += letter
    return [part.strip() for part in parts]


RECORD = "record.json"
Which = Literal["kept", "last"]
"""The encoder that is evaluated: the one a run keeps (see `opencse.training.selection`), or that of its last step."""


class StudyRecord(Settings):
    """The record of one run, or of one untrained start (then ``recipe``, ``seed`` and all of training are None).

    Attributes:
        schema_version: changes when a key changes its meaning.
        opencse: this library's version.
        created: when it was finished, UTC.
        recipe: name with presets.
        start: the model that training began with.
        reading: how the start's vectors are read before training, for instance ``untrained, cls``; of a start, how it
            is evaluated.
        seed: seed of the run; where data order and dropout are seeded apart, the number of their pair of seeds.
        data_seed: of the data order, where it is seeded apart.
        dropout_seed: of dropout, where it is seeded apart.
        asked: everything that determines what the run does, including the resolved recipe.
        text: hash of the training text.
        contents: hashes of the other content that the run depends on; None in older records.
        outcome: the result of training; see `opencse.runs.record.Outcome`.
        judged: which encoder was evaluated.
        environment: versions, commit and machine.
        train_seconds: wall clock of training.
        judge_seconds: wall clock of the evaluation on all suites.
        results: every score in percent, by name (``sts.average``).
        data: the evaluation data, by suite.
    """

    schema_version: Literal[1] = 1
    opencse: str | None = Field(default_factory=lambda: installed("opencse"))
    created: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))
    recipe: str | None = None
    start: str
    reading: str | None = None
    seed: int | None = None
    data_seed: int | None = None
    dropout_seed: int | None = None
    asked: dict[str, Any]
    text: str | None = None
    contents: Contents | None = None
    outcome: Outcome | None = None
    judged: Which
    environment: Environment
    train_seconds: FiniteFloat | None = None
    judge_seconds: FiniteFloat
    results: dict[str, FiniteFloat]
    data: dict[str, DataRecord]

    def write(self, folder: Path) -> None:
        """Writes ``record.json`` in full or not at all."""
        save_json(folder / RECORD, self.model_dump(mode="json"))

    def keeps_start(self) -> bool:
        """Whether the encoder that was evaluated is the untrained start, which the run kept."""
        return self.judged == "kept" and self.outcome is not None and self.outcome.kept in ("start", "given")

    @classmethod
    def read(cls, folder: Path) -> StudyRecord | None:
        """The record in ``folder``; None while there is none.

        Raises:
            UserError: for a file that is not such a record.
        """
        path = folder / RECORD
        return read_record(cls, path) if path.is_file() else None


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
        for kind, values in (("recipe", self.recipes), ("start", self.starts), ("seed", self.seeds)):
            names = [folder_name(str(value)) for value in values]
            for name, value in zip(names, values, strict=True):
                if names.count(name) > 1:
                    raise UserError(f"two {kind}s would share the folder {name!r} ({value} is one of them)")
        pairs = list(self.pairs.values())
        if again := next((pair for pair in pairs if pairs.count(pair) > 1), None):
            raise UserError(f"data order {again[0]} with dropout {again[1]} is there twice; name each seed once")
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

    def job(self, run: RunSpec) -> Run:
        """The training job of ``run``."""
        variant = self.variants.get(run.recipe, Variant(run.recipe))
        seeds: tuple[str, ...] = (f"training.seed={run.seed}",)
        if run.seed in self.pairs:
            order, dropout = self.pairs[run.seed]
            seeds = (f"training.seed={self.training_seed}", f"training.data_seed={order}")
            seeds = (*seeds, f"training.dropout_seed={dropout}")
        settings = (*self.settings, *variant.settings, *seeds)
        return Run(
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
        """Refuses recipes that cannot work with the text or the dev data; see `Run.require_fitting`.

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
        starts = [self.job(RunSpec(recipe, start, seed)).start for recipe in self.recipes]
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
        start = job.start
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
