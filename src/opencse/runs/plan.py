"""The plan of a run, printed before it starts: data, model, steps, batch and selection, with reasons."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import PurePath
from typing import Any

from opencse.encoder.fingerprint import hash_model
from opencse.environment import Environment
from opencse.errors import UserError
from opencse.foreign import code_notice
from opencse.kernels.precision import Precision
from opencse.modules.prompts import Prompts, Role
from opencse.modules.token_modules import TokenWeights
from opencse.numerals import number_of
from opencse.objective.identity import code_of_parts, hash_named_models
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.objective.vectors.chunks import WHOLE, Chunks
from opencse.objective.views.spans import DrawsTexts
from opencse.recipes.recipe import DataSetSettings, Recipe, check_data_sets, load_recipe
from opencse.runs.record import Identity, RunRecord, TextCounts
from opencse.streams import seed_of
from opencse.text.corpus import CorpusFacts
from opencse.text.given import TextSource, as_documents, open_texts, with_labels
from opencse.training.questions import QuestionSelector
from opencse.training.schedule import FIRST, DataSet, MixingPlan
from opencse.training.selection import Selector
from opencse.training.settings import TrainingSettings

GivenSet = tuple[TextSource, str | None]
"""A further text of a run, and the recipe whose objective it has; None takes the next data set of the run's recipe."""


@dataclass(frozen=True)
class FurtherSet:
    """A further data set of a run: its settings and its text.

    Attributes:
        settings: with its objective.
        objective: the loss of its batches.
        text: what its batches are made of, with labels where the objective reads them.
    """

    settings: DataSetSettings
    objective: ObjectiveSettings
    text: TextSource


@dataclass(frozen=True)
class PreparedSet:
    """A further data set, ready for its first step.

    Attributes:
        data_set: what its steps are made of.
        settings: how often it is seen.
        facts: counts of its text.
        near_duplicates: rows left out; None where they were not looked for.
    """

    data_set: DataSet
    settings: DataSetSettings
    facts: CorpusFacts
    near_duplicates: int | None

    def line(self, steps: int, rows: int) -> str:
        """What is trained on, for the user.

        Args:
            steps: of the data set in an epoch of the mixture.
            rows: texts of an example.
        """
        objective, batches = self.data_set.objective, self.data_set.batches
        parts = [objective.view.kind, *(part.kind for part in (*objective.negatives, *objective.terms))]
        near = (
            f", {number_of(self.near_duplicates, 'near duplicate')} left out"
            if self.near_duplicates is not None
            else ""
        )
        return (
            f"{self.data_set.name}: {self.facts.source}, {number_of(self.facts.rows, 'row')} of "
            f"{number_of(rows, 'text')}{near}; {number_of(steps, 'step')} of batch {batches.batch_size} per epoch; "
            f"objective {' + '.join(parts)}"
        )


def with_given_sets(recipe: Recipe, added: Sequence[GivenSet]) -> tuple[Recipe, tuple[TextSource | None, ...]]:
    """The recipe with a data set for each text that was given, and the text of each of its data sets.

    A text without a recipe is that of the recipe's next data set without ``data``; where there is none, it has the
    recipe's own objective. A text with a recipe is a data set with the objective of that one.

    Raises:
        UserError: if a data set has no text.
    """
    sets: list[DataSetSettings] = [*(recipe.datasets or ())]
    texts: list[TextSource | None] = [None] * len(sets)
    open_places = [number for number, one in enumerate(sets) if one.data is None]
    for text, recipe_name in added:
        if recipe_name is None and open_places:
            texts[open_places.pop(0)] = text
            continue
        objective = None if recipe_name is None else load_recipe(recipe_name).objective
        name = _name_of(text, {FIRST, *(one.name for one in sets)})
        sets.append(DataSetSettings(name=name, objective=objective))
        texts.append(text)
    if open_places:
        names = ", ".join(sets[number].name for number in open_places)
        raise UserError(
            f"{recipe.name}: trains on further data ({names}), and no text is given for it; add --also FILE for each"
        )
    check_data_sets(sets, recipe.mixing, recipe.objective, recipe.training)
    return recipe.model_copy(update={"datasets": tuple(sets) or None}), tuple(texts)


def _name_of(text: TextSource, used: set[str]) -> str:
    stem = PurePath(text.location).name.partition(".")[0] or "data"
    names = (stem if number == 1 else f"{stem}-{number}" for number in range(1, len(used) + 2))
    return next(name for name in names if name not in used)


def further_sets(recipe: Recipe, texts: Sequence[TextSource | None]) -> list[FurtherSet]:
    """Opens the texts of the recipe's data sets, with labels where their objectives read them.

    Raises:
        UserError: naming the data set.
    """
    opened = []
    for settings, added in zip(recipe.datasets or (), texts, strict=True):
        objective = settings.objective or recipe.objective
        text: TextSource | None = added
        if text is None:
            text = open_texts(settings.data, columns=settings.columns)
        try:
            labelled = text_for(Objective.from_settings(objective), text, settings.scale)
        except UserError as error:
            raise UserError(f"data set {settings.name}: {error}") from None
        opened.append(FurtherSet(settings, objective, labelled))
    return opened


def text_for(objective: Objective, text: TextSource, scale: float | None) -> TextSource:
    """The text as an objective reads it: with the last column of each row as its label, or as documents.

    Raises:
        UserError: for a text without the labels that it needs.
    """
    if isinstance(objective.view, DrawsTexts):  # its example is a document
        text = as_documents(text)
    return with_labels(text, objective.label, scale=scale)


def fingerprint_of_texts(fingerprints: Sequence[str]) -> str:
    """A hash of all texts of a run, of the hash of each: that of the only text, if there are no further ones."""
    return fingerprints[0] if len(fingerprints) == 1 else hashlib.sha256(" ".join(fingerprints).encode()).hexdigest()


def training_of_set(training: TrainingSettings, settings: DataSetSettings, seed: int) -> TrainingSettings:
    """The run's settings of training with the data set's batch size and a seed of its own."""
    update = {"batch_size": settings.batch_size or training.batch_size, "seed": seed}
    if training.data_seed is not None:
        update["data_seed"] = seed_of(training.data_seed, f"data set {settings.name}")
    return training.model_copy(update=update)


def mixture_of(recipe: Recipe, first: DataSet, others: Sequence[PreparedSet]) -> MixingPlan | None:
    """Plans which data set each step works on; None with one data set alone."""
    if not others:
        return None
    accumulate = recipe.training.accumulate
    counts = [first.batches.steps_per_epoch / accumulate]
    counts += [one.data_set.batches.steps_per_epoch / accumulate * (one.settings.weight or 1.0) for one in others]
    seed = recipe.training.seed_of_order
    return MixingPlan([max(1, round(count)) for count in counts], recipe.mixing or "proportional", seed)


@dataclass(frozen=True)
class Sizes:
    """Sizes of the data and the run, which limit some settings.

    Attributes:
        examples: in the text.
        batches_per_epoch: in one pass over them.
        steps: of the run.
        batch_size: examples in the largest batch.
        texts_per_step: texts that are encoded in a step's largest batch.
        stores: vectors that each part stores at most, by the part's name.
        evaluates: whether there is dev data.
    """

    examples: int
    batches_per_epoch: int
    steps: int
    batch_size: int
    texts_per_step: int
    stores: dict[str, int]
    evaluates: bool


def bounded_settings(training: TrainingSettings, explicit: Collection[str], sizes: Sizes) -> list[str]:
    """Returns a line for each setting with less effect than its value says: why, and how to change that.

    Args:
        training: the ``[training]`` table.
        explicit: dotted keys of the settings that the user chose; bounds that a recipe sets itself are no news.
        sizes: of the data and the run.

    Example:
        >>> sizes = Sizes(1280, 20, 20, 64, 128, {}, evaluates=True)
        >>> training = TrainingSettings(max_steps=60, evaluate_every=10)
        >>> print(*bounded_settings(training, {"training.max_steps"}, sizes))
        training.max_steps = 60 is not reached: training.epochs = 1 allows 20 steps; set training.epochs = 3 for 60
    """
    return [
        *_budgets(training, explicit, sizes),
        *_batches(training, explicit, sizes),
        *_intervals(training, sizes),
        *_stores(training, sizes),
    ]


def _budgets(training: TrainingSettings, explicit: Collection[str], sizes: Sizes) -> list[str]:
    lines = []
    budget = "training.minutes" if training.minutes is not None else "training.tokens"
    other = training.minutes is not None or training.tokens is not None
    if other and "training.epochs" in explicit:
        lines.append(f"training.epochs = {training.epochs:g} is not used: {budget} decides how long the run is")
    most = training.max_steps
    if most is not None and most > sizes.steps and "training.max_steps" in explicit:
        if other:
            lines.append(
                f"training.max_steps = {most:,} is not reached: {budget} allows {number_of(sizes.steps, 'step')}; "
                "raise it"
            )
        else:
            epochs = math.ceil(most * training.accumulate / sizes.batches_per_epoch)
            lines.append(
                f"training.max_steps = {most:,} is not reached: training.epochs = {training.epochs:g} allows "
                f"{number_of(sizes.steps, 'step')}; set training.epochs = {epochs:,} for {most:,}"
            )
    if training.warmup > 0 and round(training.warmup * sizes.steps) == 0:
        lines.append(
            f"training.warmup = {training.warmup:g} of {sizes.steps:,} steps rounds to no step: there is no warm-up"
        )
    unreached = [step for step, _ in training.rate_changes if step > sizes.steps]
    if unreached:
        lines.append(
            f"training.rate_changes from step {unreached[0]:,} on are not reached: the run has "
            f"{number_of(sizes.steps, 'step')}"
        )
    return lines


def _batches(training: TrainingSettings, explicit: Collection[str], sizes: Sizes) -> list[str]:
    lines = []
    if training.batch_tokens is not None:
        if "training.batch_size" in explicit:
            lines.append(f"training.batch_size = {training.batch_size:,} is not used: training.batch_tokens decides")
    elif training.batch_size > sizes.batch_size:
        lines.append(
            f"training.batch_size = {training.batch_size:,} is more than the {sizes.examples:,} examples: all are in "
            "one batch"
        )
    if training.accumulate > sizes.batches_per_epoch:
        lines.append(
            f"training.accumulate = {training.accumulate:,} is more than the {sizes.batches_per_epoch:,} batches of an "
            "epoch: a step sees examples more than once"
        )
    if isinstance(training.chunk, int) and training.chunk >= sizes.texts_per_step:
        lines.append(
            f"training.chunk = {training.chunk:,} is not less than the {sizes.texts_per_step:,} texts of a batch: they "
            "are one chunk"
        )
    return lines


def _intervals(training: TrainingSettings, sizes: Sizes) -> list[str]:
    """Intervals that are longer than the run."""
    if sizes.steps < 2:
        return []
    lines = []
    if sizes.evaluates and training.evaluate_every >= sizes.steps:
        lines.append(
            f"training.evaluate_every = {training.evaluate_every:,} is not less than the {sizes.steps:,} steps: the "
            "last step alone is evaluated"
        )
    return lines


def _stores(training: TrainingSettings, sizes: Sizes) -> list[str]:
    """Parts that store more vectors of earlier steps than there are texts, or than the run makes."""
    lines = []
    vectors = sizes.steps * training.accumulate * sizes.batch_size
    for part, size in sizes.stores.items():
        if size > sizes.examples:
            lines.append(
                f"{part} stores {number_of(size, 'vector')}, more than the {sizes.examples:,} examples: it holds "
                "older vectors of the same texts"
            )
        elif size > vectors:
            lines.append(
                f"{part} stores {number_of(size, 'vector')}, and the run makes about {vectors:,}: it is never full"
            )
    return lines


_MOST_SHOWN = 12
_NEAR_REPEATS = ("row that nearly repeats", "rows that nearly repeat")
_WEIGHED = "rare tokens weigh more in the mean (encoder.token_weights = idf) of all candidates but the start"


@dataclass(frozen=True)
class Plan:
    """Everything that a run does, as decided before its first step."""

    recipe: Recipe
    model: str
    preset: str | None
    dev: Selector | None
    corpus: CorpusFacts
    examples: int
    steps: int
    batches_per_epoch: int
    batch_size: int
    tokens_per_step: int
    hard: int
    reads_hard: bool
    negatives_per_anchor: int
    precision: Precision
    attention: str
    device: str
    parameters: int
    trained: int
    pooling: str
    code: tuple[str, ...] = ()
    pooling_reason: str = ""
    chunks: Chunks = WHOLE
    chunks_reason: str = ""
    near_duplicates: int | None = None
    sample: tuple[int, int] | None = None
    token_weights: TokenWeights | None = None
    replaced: tuple[str, ...] = ()
    bounded: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    prompts: Prompts = field(default_factory=Prompts)
    others: tuple[PreparedSet, ...] = ()
    mixture: MixingPlan | None = None
    seconds_per_step: float | None = None

    def lines(self) -> list[str]:
        """The plan in lines, for the user."""
        facts, training = self.corpus, self.recipe.training
        preset = f"preset {self.preset}" if self.preset else "no preset for this model: the recipe's own settings"
        epochs = self.steps * training.accumulate / self.batches_per_epoch
        part = self.recipe.encoder.part and f", its {self.recipe.encoder.part}"
        return [
            f"text       {self._text()}",
            *(
                [f"near       {number_of(self.near_duplicates, *_NEAR_REPEATS)} an earlier one, left out"]
                if self.near_duplicates is not None
                else []
            ),
            *(f"doubt      {line}" for line in self.doubts),
            *self._labels(self.corpus, self.recipe.data.scale),
            *self._data_sets(),
            *self._sample(),
            f"tokens     {facts.tokens:,}; {number_of(facts.at_limit, 'text reaches', 'texts reach')} the limit of "
            f"{facts.max_length} ids",
            f"model      {self.model}{part}: {self.parameters / 1e6:.1f}M parameters, pooling {self.pooling}",
            *([f"pooling    {self.pooling}: {self.pooling_reason}"] if self.pooling_reason else []),
            *self._prompts(),
            *([f"weights    {_WEIGHED}"] if self.token_weights is not None else []),
            *self._adapters(),
            *([code_notice(self.code)] if self.code else []),
            f"recipe     {self.recipe.name} ({preset})",
            *(f"setting    {line}" for line in self.replaced),
            f"steps      {self.steps:,} of {self._batch()}; "
            f"{self._examples()} are {number_of(self.batches_per_epoch, 'batch')} per epoch, so {epochs:.2f} epochs",
            *(f"limit      {line}" for line in self.bounded),
            *self._passes(),
            *self._chunks(),
            f"negatives  {self._negatives()}",
            f"compute    {self.device}, {self.precision.name} ({self.precision.reason}), attention {self.attention}",
            f"rate       {training.rate_in_words}, {training.seeds_in_words}",
            f"selection  {self._selection()}",
            *self._time(),
        ]

    def identity(self) -> Identity:
        """The values that make it this run, for `RunRecord`."""
        return Identity(
            recipe=self._settings(),
            model=self.model,
            text=self._fingerprint(),
            precision=self.precision.name,
            dev=self.dev.name if self.dev else None,
            code=list(self.code) or None,
            start=hash_model(self.model),
            dev_pairs=self.dev.fingerprint() if self.dev else None,
            parts=code_of_parts(self.recipe),
            models=hash_named_models(self.recipe),
        )

    def _text(self) -> str:
        facts = self.corpus
        documents = f", {number_of(facts.documents, 'document')}" if facts.documents else ""
        duplicates = number_of(facts.duplicates, "duplicate row") if facts.duplicates else "no duplicate rows"
        if self.recipe.objective.mask_duplicates:
            equal_texts = " (equal texts in a batch are not each other's negatives)" if facts.duplicates else ""
        else:
            equal_texts = "; equal texts in a batch ARE negatives (objective.mask_duplicates = false)"
        return (
            f"{facts.source}: {number_of(facts.rows, 'row')} of {number_of(facts.width, 'text')}{documents}, "
            f"{duplicates}{equal_texts}"
        )

    def _negatives(self) -> str:
        if not self.recipe.objective.negatives:
            return "none: the objective has terms only, no contrast"
        hard = f", {self.hard} hard per example" if self.hard else ""
        if self.reads_hard and not self.hard:
            hard = "; the data has no hard negatives"
        return f"{self.negatives_per_anchor:,} per anchor{hard}"

    def _selection(self) -> str:
        training = self.recipe.training
        if self.dev is None:
            no_averages = training.average_with_start != (1.0,)
            return "none: the last encoder is kept, and nothing shows whether it is better" + (
                " (so there are no averages with the start)" if no_averages else ""
            )
        evaluated = "step" if training.evaluate_every == 1 else f"{training.evaluate_every} steps"
        of = {"first": "", "second": " of the second encoder", "better": " of both encoders"}
        best = f"best{of[self.recipe.objective.saved_encoder]}"
        ends = ""
        if training.patience is not None:
            ends = f"; training ends after {number_of(training.patience, 'evaluation')} without gain"
        return f"{best} on {self.dev.name} ({self.dev.size}), every {evaluated}{ends}"

    def _settings(self) -> dict[str, Any]:
        """Every setting; of data sets, not where their files are."""
        settings = self.recipe.model_dump(mode="json", exclude={"presets"})
        for one in settings["datasets"] or ():
            one["data"] = None
        return settings

    def _fingerprint(self) -> str:
        """A hash of all texts and of how they are read."""
        return fingerprint_of_texts([self.corpus.fingerprint, *(one.facts.fingerprint for one in self.others)])

    def record(self) -> RunRecord:
        """The record of the run at its beginning."""
        return RunRecord(
            identity=self.identity(),
            source=self.corpus.source,
            corpus=TextCounts(**asdict(self.corpus)),
            examples=self.examples,
            steps=self.steps,
            environment=Environment.here(self.device),
            measure=self.dev.measure if self.dev else None,
        )

    def _time(self) -> list[str]:
        """How long the steps take, where that was measured."""
        if self.seconds_per_step is None:
            return []
        count = self.steps // self.recipe.training.evaluate_every + 1
        evaluations = "" if self.dev is None else f", and {number_of(count, 'evaluation')}"
        minutes = self.steps * self.seconds_per_step / 60
        time = number_of(round(minutes), "minute") if minutes >= 1.5 else number_of(round(60 * minutes), "second")
        each = f"{self.seconds_per_step:.2g} s each, measured"
        return [f"time       about {time} for the steps on this machine ({each}){evaluations}"]

    def _data_sets(self) -> list[str]:
        """The further data sets, and how they are mixed."""
        if self.mixture is None:
            return []
        lines = []
        for one, steps in zip(self.others, self.mixture.steps[1:], strict=True):
            lines.append(f"also       {one.line(steps, one.data_set.inputs.corpus.width)}")
            lines += self._labels(one.facts, one.settings.scale)
        turns = "in turns" if self.mixture.rule == "round_robin" else "by proportion, in an order drawn every epoch"
        return [
            *lines,
            f"mixing     {turns}: {number_of(self.mixture.steps[0], 'step')} of the text per epoch; one data set a "
            "step",
        ]

    @staticmethod
    def _labels(facts: CorpusFacts, scale: float | None) -> list[str]:
        """What label the rows have, where they have any."""
        if facts.scale is not None:
            divided = "as they are" if facts.scale == 1 else f"the file's, divided by {facts.scale:g}"
            reason = "set by scale" if scale is not None else "the largest in the file"
            return [f"labels     scores from 0 to 1: {divided}" + ("" if facts.scale == 1 else f" ({reason})")]
        if facts.classes:
            names = ", ".join(facts.classes[:_MOST_SHOWN]) + ", ..." * (len(facts.classes) > _MOST_SHOWN)
            return [f"labels     {number_of(len(facts.classes), 'class')}: {names}"]
        return []

    def _examples(self) -> str:
        if not self.others:
            return number_of(self.examples, "example")
        total = self.examples + sum(len(one.data_set.inputs) for one in self.others)
        return f"{number_of(total, 'example')} of {1 + len(self.others)} data sets"

    def _prompts(self) -> list[str]:
        """The prompts before the texts of each column, where the model has any."""
        if not self.prompts:
            return []
        before = self.prompts.columns.of(self.corpus.width)
        quoted = [repr(prompt) if prompt else "none" for prompt in before]
        line = f"before every text: {quoted[0]}"
        if len(set(quoted)) > 1:
            line = f"before the first text of a row: {quoted[0]}; before the others: {quoted[1]}"
        in_search = self.prompts.of(Role.QUERY), self.prompts.of(Role.DOCUMENT)
        if isinstance(self.dev, QuestionSelector) and before[:2] != in_search:
            line += f"; selection uses {self.prompts.line(Role.QUERY, Role.DOCUMENT)}"
        return [f"prompts    {line}{self.prompts.note}"]

    def _sample(self) -> list[str]:
        """How many rows are trained on, where these are drawn from more."""
        if self.sample is None:
            return []
        drawn, rows = self.sample
        return [f"sample     {drawn:,} of {rows:,} rows, drawn by data.sample_seed {self.recipe.data.sample_seed}"]

    def _adapters(self) -> list[str]:
        lora = self.recipe.encoder.lora
        return (
            [] if lora is None else [f"adapters   {lora}: {self.trained:,} parameters are trained, the rest is frozen"]
        )

    def _passes(self) -> list[str]:
        worst_case = self.recipe.training.worst_case
        return (
            []
            if worst_case is None
            else [f"passes     two per step, the second at worst-case weights ({worst_case.kind})"]
        )

    def _chunks(self) -> list[str]:
        """How the rows of a step are encoded, where they are not encoded all at once."""
        chunks, world = self.chunks, self.chunks.world
        lines = []
        if chunks.rows is not None:
            lines.append(
                f"chunks     {number_of(chunks.rows, 'text')} encoded at a time, to save memory ({self.chunks_reason})"
            )
        elif self.chunks_reason:
            lines.append(f"chunks     none ({self.chunks_reason})")
        if world.several:
            lines.append(f"processes  {world.count}, each encodes a share of every batch")
        return lines

    def _batch(self) -> str:
        batches = self.recipe.training.accumulate
        if self.recipe.training.batch_tokens is not None:
            return f"about {self.tokens_per_step:,} tokens, texts of similar length"
        return f"batch {self.batch_size}" + (f" x {batches}, each contrasted separately" if batches > 1 else "")
