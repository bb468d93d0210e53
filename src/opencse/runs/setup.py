"""What a run is made of, opened once: recipe, start, encoder, objectives, data sets, selector and steps."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import PurePath
from typing import Self

import numpy as np

from opencse.arrays import Flags
from opencse.documents.dev_choice import AUTO, Dev, DevChoice
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import hash_model
from opencse.encoder.network import default_device, usable_device
from opencse.environment import Environment
from opencse.errors import UserError
from opencse.kernels.precision import Precision, choose_precision
from opencse.model_folder.description import describe
from opencse.model_folder.locate import BUILTIN
from opencse.objective.identity import code_of_parts, hash_named_models
from opencse.objective.inputs import InputBuilder
from opencse.objective.objective import Objective
from opencse.objective.vectors.chunks import Chunks
from opencse.objective.vectors.requests import Masked
from opencse.objective.views.base import ChangesTokens
from opencse.objective.views.spans import DrawsTexts
from opencse.processes import ALONE, Processes, gpu_of, started
from opencse.progress import Counted, Progress
from opencse.recipes.recipe import (
    DataSetSettings,
    Recipe,
    Resolved,
    check_data_sets,
    load_recipe,
    resolve_recipe,
)
from opencse.runs.record import Identity, RunRecord
from opencse.runs.start import (
    NewStart,
    Start,
    choose_forward,
    put_weights,
    settle,
    weigh_tokens,
)
from opencse.streams import seed_of
from opencse.text.corpus import Corpus, CorpusFacts, tokenise
from opencse.text.duplicates import find_near_duplicates
from opencse.text.given import TextSource, as_documents, open_texts, say_left_out_rows, with_labels
from opencse.training.batches import Batches, sample_rows
from opencse.training.callbacks import Callback
from opencse.training.evaluations import probes_of, require_known, require_sound
from opencse.training.schedule import FIRST, DataSet, MixingPlan, choose_chunks, plan_batches, seconds_per_step
from opencse.training.selection import Selector, TrainedTexts

AUTO_LENGTH = 256
"""Most ids of a text that ``data.max_length=auto`` reads."""
GivenSet = tuple[TextSource, str | None]
"""A further text of a run, and the recipe whose objective it has; None takes the next data set of the run's recipe."""


@dataclass(frozen=True)
class RunText:
    """A text of a run: its settings, its loss, and the text itself, with labels where the loss reads them."""

    settings: DataSetSettings
    objective: Objective
    text: TextSource


@dataclass(kw_only=True, eq=False)
class RunSetup:
    """Everything that decides what a run does, and what it is made of once it is opened (`open`).

    See `opencse.train` for what is given.

    Attributes:
        recipe: by name, a `Recipe`, or one that was resolved before.
        begin: writes a new start to the run's folder, which ``model`` then names; None opens ``model``.
        also: further texts, each with the recipe of its objective; see `with_given_sets`.
        location: where the start is, until it has moved to ``start_model``.
        selector: selects the encoder to keep; None keeps the last one.
        attention: what computes the training forward, in words; see `choose_forward`.
        sets: the data sets, that of ``text`` first.
        sample: (rows drawn, rows to draw from) where a share is trained on; None without ``data.rows`` and
            ``data.share``.
        weighs: whether weights of tokens were computed from the text.
        mixture: which data set each step works on; None with one alone.
        chunks_reason: why the rows of a step are encoded so, for the user.
        steps: of the whole run.
    """

    text: TextSource
    recipe: str | Recipe | Resolved = "simcse"
    model: str = BUILTIN
    preset: str | None = None
    settings: tuple[str, ...] = ()
    dev: DevChoice = AUTO
    device: str | None = None
    trust_remote_code: bool = False
    begin: NewStart | None = None
    callbacks: tuple[Callback, ...] = ()
    track: str | None = None
    also: tuple[GivenSet, ...] = ()

    location: str | None = field(default=None, init=False)
    world: Processes = field(default=ALONE, init=False)
    progress: Progress = field(init=False, repr=False)
    selector: Selector | None = field(init=False)
    encoder: SentenceEncoder = field(init=False, repr=False)
    attention: str = field(init=False)
    max_length: int = field(init=False)
    sets: tuple[DataSet, ...] = field(init=False, repr=False)
    sample: tuple[int, int] | None = field(init=False)
    weighs: bool = field(default=False, init=False)
    mixture: MixingPlan | None = field(init=False)
    precision: Precision = field(init=False)
    chunks: Chunks = field(init=False)
    chunks_reason: str = field(init=False)
    steps: int = field(init=False)

    @property
    def resolved(self) -> Resolved:
        """The recipe with presets, settings and further data sets.

        Raises:
            UserError: for a fault in the recipe or a setting, or a data set without a text.
        """
        return self._with_sets[0]

    @cached_property
    def _with_sets(self) -> tuple[Resolved, tuple[TextSource | None, ...]]:
        """The recipe with further data sets, and the text of each that was given."""
        resolved = resolve_for_run(
            self.recipe, preset=self.preset, settings=self.settings, model=self.model, is_new=self.begin is not None
        )
        recipe, texts = with_given_sets(resolved.recipe, self.also)
        return replace(resolved, recipe=recipe), texts

    @property
    def start_model(self) -> str:
        """The model to start from: the built-in encoder, a folder, or a Hub id (also where a preset names it)."""
        return self.resolved.model or self.model

    @cached_property
    def start(self) -> Start:
        """The start with pooling and head decided; see `opencse.runs.start.settle`.

        Raises:
            UserError: for a fault in the recipe or a setting, or if there is no such model.
        """
        return settle(
            self.resolved.recipe,
            self.location or self.start_model,
            self.resolved.explicit,
            device=device_of_process(self.device),
            trust_remote_code=self.trust_remote_code,
        )

    @cached_property
    def texts(self) -> list[RunText]:
        """The texts of all data sets, each with an objective of its own; that of ``text`` first.

        Raises:
            UserError: for a fault in the recipe, or a text that cannot be opened or lacks the labels that it needs.
        """
        resolved, further = self._with_sets
        return texts_of(resolved.recipe, self.text, further)

    @property
    def objective(self) -> Objective:
        """The objective of the text."""
        return self.texts[0].objective

    @property
    def training_text(self) -> TextSource:
        """The text, with the last column of each row as its label where the recipe learns from labels, or as documents.

        Raises:
            UserError: see `texts`.
        """
        return self.texts[0].text

    @property
    def inputs(self) -> InputBuilder:
        """Builds the rows of the text's steps."""
        return self.sets[0].inputs

    @property
    def batches(self) -> Batches:
        """The examples of the text's steps."""
        return self.sets[0].batches

    @property
    def facts(self) -> CorpusFacts:
        """Counts of the text."""
        return self.inputs.corpus.facts

    @property
    def batches_per_epoch(self) -> int:
        """Batches of all data sets in an epoch."""
        if self.mixture is None:
            return self.batches.steps_per_epoch
        return self.mixture.steps_per_epoch * self.start.recipe.training.accumulate

    def require_fitting(self, dev: Selector | None) -> None:
        """Refuses a text without the columns that the recipe reads, and dev data that is missing; opens no model.

        Args:
            dev: what the encoder to keep is selected by.

        Raises:
            UserError: naming the fix.
        """
        self._require_selector(dev)
        text = self.training_text
        for _, row in islice(text.rows_with_documents(), 1):
            self.objective.view.require_width(len(row), text.name)

    def open(self, progress: Progress, *, steps: int | None = None, world: Processes = ALONE) -> Self:
        """Opens and tokenises everything, ready to train; nothing is written except the token cache.

        Args:
            progress: receives decisions and progress.
            steps: of the run, where it is known (a resumed run); by default the training budget decides.
            world: the processes that train together.

        Raises:
            UserError: for settings that cannot work with this model or this text.
        """
        if "sets" in vars(self):  # opened before: the objectives have the state of that run
            del self.texts
        self.progress, self.world = progress, world
        start, recipe = self.start, self.start.recipe
        self.selector = self._opened_selector()
        progress.say(f"loading    {self.start_model}")
        encoder = start.for_training()
        self.encoder, self.max_length = encoder, longest_text(encoder, recipe, self.start_model)
        objectives = [one.objective for one in self.texts]
        for one in objectives:
            one.to(encoder.device)
            one.check_encoder(encoder, start.model, own_dropout=recipe.encoder.dropout is None)
        reads = [request for one in objectives for request in one.reads]
        start.add_masked_lm_head(encoder, reads)
        self.attention = choose_forward(encoder, recipe.training.packed)
        self._require_selector(self.selector)
        self.sets = tuple(map(self._data_set, self.texts))
        if not any(isinstance(request, Masked) for request in reads):
            encoder.lm_head = None  # a part that uses the head for other texts has made a copy of it when it began
        self.mixture = self._mixed()
        self.precision = choose_precision(recipe.training.precision, encoder.device)
        largest = max(self.sets, key=lambda one: (2 + one.inputs.hard) * one.batches.batch_size)
        networks = max(len(one.networks) for one in objectives)
        self.chunks, self.chunks_reason = choose_chunks(
            recipe.training.chunk, encoder, largest.inputs, largest.batches.batch_size, self.precision, world, networks
        )
        self.steps = self._count_steps() if steps is None else steps
        return self

    def identity(self) -> Identity:
        """The values that make it this run, for `RunRecord`."""
        settings = self.start.recipe.model_dump(mode="json", exclude={"presets"})
        for one in settings["datasets"] or ():
            one["data"] = None  # of data sets, not where their files are
        selector, code = self.selector, self.encoder.own_code
        return Identity(
            recipe=settings,
            model=self.start_model,
            text=fingerprint_of_texts([one.inputs.corpus.facts.fingerprint for one in self.sets]),
            precision=self.precision.name,
            dev=selector.name if selector else None,
            code=list(code) or None,
            start=hash_model(self.start_model),
            dev_pairs=selector.fingerprint() if selector else None,
            parts=code_of_parts(self.start.recipe),
            models=hash_named_models(self.start.recipe),
        )

    def record(self) -> RunRecord:
        """The record of the run at its beginning."""
        return RunRecord(
            identity=self.identity(),
            source=self.facts.source,
            corpus=self.facts,
            examples=len(self.inputs),
            steps=self.steps,
            environment=Environment.here(str(self.encoder.device)),
            measure=self.selector.measure if self.selector else None,
        )

    def seconds_per_step(self, most_seconds: float | None = None) -> float:
        """The measured pace: of some steps of each data set that are made and undone; the mean as they are mixed."""
        how = self.start.recipe.training, self.precision, self.chunks, most_seconds
        paces = [seconds_per_step(self.encoder, one, *how) for one in self.sets]
        return float(np.average(paces, weights=None if self.mixture is None else self.mixture.steps))

    def _opened_selector(self) -> Selector | None:
        selector = Dev.of(self.dev).open(self.training_text)
        if selector is None or not (texts := [*selector.forbidden_texts()]):
            return selector
        rows = (row for one in self.texts for _, row in one.text.rows_with_documents())
        selector, notes = selector.without(TrainedTexts.among(rows, texts))
        for line in notes:
            self.progress.say(line)
        return selector

    def _require_selector(self, dev: Selector | None) -> None:
        """Refuses an objective whose encoder is chosen by dev data where there is none."""
        if self.objective.saved_encoder == "better" and dev is None:
            raise UserError(
                "objective.saved_encoder = better needs dev data to choose by; add --dev, or set first or second"
            )

    def _data_set(self, one: RunText) -> DataSet:
        """Makes a data set and begins its objective; the draws of a further one have a seed of their own."""
        recipe, encoder, text, objective = self.start.recipe, self.encoder, one.text, one.objective
        name, training, where = one.settings.name, recipe.training, text.location
        is_first = name == FIRST
        if not is_first:
            where = f"data set {name}: {where}"
            seeds = {"seed": training.seed, "data_seed": training.data_seed}
            update = {key: None if seed is None else seed_of(seed, f"data set {name}") for key, seed in seeds.items()}
            update["batch_size"] = one.settings.batch_size or training.batch_size
            training = training.model_copy(update=update)
        corpus = self._tokenised(text, objective)
        if is_first and recipe.encoder.token_weights is not None:
            explicit = "encoder.token_weights" in self.resolved.explicit
            weights = weigh_tokens(encoder, corpus.every_text(), explicit=explicit)
            self.weighs = weights is not None
            put_weights(encoder, weights)
        require_known(encoder, corpus, self.start_model)
        if is_first:
            fix = "choose another pooling, for instance with --set encoder.pooling=mean"
            require_sound(encoder, probes_of(corpus), f"{self.start_model}, untrained", fix)
        near = self._near_duplicates(text)
        held_out = self.selector.left_out if is_first and self.selector is not None else None
        left_out = near if held_out is None else held_out if near is None else near | held_out
        inputs = InputBuilder(corpus, encoder.tokenizer, objective, training.seed, left_out)
        if is_first:
            self.sample = self._sampled(inputs, text)
        if len(inputs) < 2:
            documents = isinstance(objective.view, DrawsTexts)
            fix = " documents (a blank line ends one in a text file; elsewhere each record is one)" * documents
            raise UserError(f"{where}: only one example; contrast needs at least two{fix}")
        with self.world.first_alone():  # the first of several processes fills the cache
            for part in objective.all_parts:
                part.study(encoder, (cell for _, row in text.rows_with_documents() for cell in row), self.progress)
        batches, classes = plan_batches(inputs, training), len(corpus.facts.classes)
        objective.begin(encoder, batch_size=batches.batch_size, seed=training.seed, classes=classes)
        return DataSet(name, objective, inputs, batches, None if near is None else int(near.sum()))

    def _sampled(self, inputs: InputBuilder, text: TextSource) -> tuple[int, int] | None:
        """Keeps the share of the rows that ``data.rows`` or ``data.share`` says; (rows drawn, rows to draw from)."""
        data, rows = self.start.recipe.data, inputs.anchor_rows
        drawn = sample_rows(rows, count=data.rows, share=data.share, seed=data.sample_seed, source=text.location)
        if drawn is None:
            return None
        inputs.keep_rows(drawn)
        return len(drawn), len(rows)

    def _tokenised(self, text: TextSource, objective: Objective) -> Corpus:
        """The text as ids, from the token cache if possible; the first of several processes fills the cache."""
        encoder = self.encoder
        if self.world.first:
            say_left_out_rows(text, self.progress.say)
        with self.world.first_alone():
            corpus = tokenise(
                text,
                encoder.tokenizer,
                self.max_length,
                prompts=encoder.prompts.columns,
                words=isinstance(objective.view, ChangesTokens),
                progress=Counted(self.progress, "tokenising"),
                say=self.progress.say,
            )
        unpooled = [encoder.unpooled(prompt) for prompt in encoder.prompts.columns.of(corpus.width)]
        return replace(corpus, unpooled=tuple(unpooled) if any(unpooled) else ())

    def _near_duplicates(self, text: TextSource) -> Flags | None:
        """(M,) rows that nearly repeat an earlier one; None where ``data.near_duplicates`` is unset."""
        threshold = self.start.recipe.data.near_duplicates
        if threshold is None:
            return None
        self.progress.say("looking for near duplicates")
        return find_near_duplicates((row for _, row in text.rows_with_documents()), threshold).rows

    def _mixed(self) -> MixingPlan | None:
        """Plans which data set each step works on; None with one data set alone."""
        if len(self.sets) == 1:
            return None
        recipe = self.start.recipe
        counts = [
            one.batches.steps_per_epoch / recipe.training.accumulate * (text.settings.weight or 1.0)
            for one, text in zip(self.sets, self.texts, strict=True)
        ]
        seed = recipe.training.seed_of_order
        return MixingPlan([max(1, round(count)) for count in counts], recipe.mixing or "proportional", seed)

    def _count_steps(self) -> int:
        """Steps that the training budget allows; a budget of minutes needs the pace, which is measured."""
        training, pace = self.start.recipe.training, None
        if training.minutes is not None:
            pace = self.world.share(self.seconds_per_step())
            self.progress.say(f"pace       {pace:.3f} s per step, measured")
        tokens = [int(one.inputs.lengths.sum()) for one in self.sets]
        if self.mixture is None:
            return training.steps(self.batches.steps_per_epoch, tokens[0], pace)
        seen = sum(
            float(count) * (steps * training.accumulate / one.batches.steps_per_epoch)
            for count, steps, one in zip(tokens, self.mixture.steps, self.sets, strict=True)
        )
        return training.steps(self.batches_per_epoch, round(seen), pace)


def resolve_for_run(
    recipe: str | Recipe | Resolved,
    *,
    preset: str | None = None,
    settings: tuple[str, ...] = (),
    model: str = BUILTIN,
    is_new: bool = False,
) -> Resolved:
    """Resolves the recipe of a run that starts from ``model``.

    A table of word vectors, whatever it is called, gets the built-in encoder's preset where it has none: a recipe's
    learning rate is for a network.

    Example:
        >>> resolve_for_run("simcse", preset="crop-10").preset
        'opencse-mini:crop-10'

    Args:
        recipe: a name or the path of a TOML file, either with presets after colons; or the recipe itself.
        preset: more presets, joined by colons.
        settings: ``key.path=value``, applied last.
        model: to train: the built-in encoder, a folder, a Hub id, or the name of a preset.
        is_new: whether the run writes ``model`` first, so that it cannot be looked into.

    Raises:
        UserError: for a fault in the recipe or a setting, or a preset for another model.
    """
    if isinstance(recipe, Resolved):
        return recipe
    if isinstance(recipe, Recipe):
        if preset is not None or settings:
            raise UserError("preset and settings need a recipe's name; change the Recipe object instead")
        encoder = recipe.encoder
        explicit = {"encoder.pooling": encoder.pooling is not None, "encoder.head": encoder.head.kind != "none"}
        return Resolved(recipe, (), model, frozenset(key for key, is_set in explicit.items() if is_set))
    resolved = resolve_recipe(recipe, preset=preset, model=model, overrides=settings)
    backbone = resolved.backbone
    if model == BUILTIN and backbone is not None and backbone.model != BUILTIN:
        raise UserError(
            f"{resolved.recipe.name}: {resolved.presets[0]} is a preset for {backbone.model}, and the model is the "
            f"built-in encoder; choose the model too, with --model {resolved.presets[0]}"
        )
    if (
        is_new
        or backbone is not None
        or BUILTIN not in resolved.recipe.presets
        or describe(resolved.model or model).has_layers
    ):
        return resolved
    presets = f"{preset}:{BUILTIN}" if preset else BUILTIN
    return resolve_recipe(recipe, preset=presets, model=model, overrides=settings)


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
    if added:
        check_data_sets(sets, recipe.mixing, recipe.objective, recipe.training)
    return recipe.model_copy(update={"datasets": tuple(sets) or None}), tuple(texts)


def _name_of(text: TextSource, used: set[str]) -> str:
    stem = PurePath(text.location).name.partition(".")[0] or "data"
    names = (stem if number == 1 else f"{stem}-{number}" for number in range(1, len(used) + 2))
    return next(name for name in names if name not in used)


def texts_of(recipe: Recipe, text: TextSource, further: Sequence[TextSource | None]) -> list[RunText]:
    """Opens the texts of the recipe's data sets, with labels where their objectives read them.

    Args:
        recipe: with its data sets.
        text: of the first data set.
        further: the text of each other one, where it was given.

    Raises:
        UserError: naming the data set.
    """
    first = DataSetSettings(name=FIRST, scale=recipe.data.scale)
    opened = []
    for settings, given in zip((first, *(recipe.datasets or ())), (text, *further), strict=True):
        objective = Objective.from_settings(settings.objective or recipe.objective)
        try:
            source = open_texts(settings.data, columns=settings.columns) if given is None else given
            opened.append(RunText(settings, objective, _text_for(objective, source, settings.scale)))
        except UserError as error:
            raise error if settings is first else UserError(f"data set {settings.name}: {error}") from None
    return opened


def _text_for(objective: Objective, text: TextSource, scale: float | None) -> TextSource:
    """The text as an objective reads it: with the last column of each row as its label, or as documents."""
    if objective.label != "score" and scale is not None:
        raise UserError(
            "data.scale (or a set's scale) is the largest possible score; this recipe reads none; leave it out"
        )
    if isinstance(objective.view, DrawsTexts):  # its example is a document
        text = as_documents(text)
    return with_labels(text, objective.label, scale=scale)


def fingerprint_of_texts(fingerprints: Sequence[str]) -> str:
    """A hash of all texts of a run, of the hash of each: that of the only text, if there are no further ones."""
    return fingerprints[0] if len(fingerprints) == 1 else hashlib.sha256(" ".join(fingerprints).encode()).hexdigest()


def longest_text(encoder: SentenceEncoder, recipe: Recipe, model: str) -> int:
    """Decides how many ids of a text training reads.

    Raises:
        UserError: for more than the model can read, or than a batch can hold.
    """
    around = encoder.tokenizer.special_count
    limit, batch_tokens = recipe.data.max_length, recipe.training.batch_tokens
    if limit == "auto":
        longest = min(encoder.max_length, AUTO_LENGTH)
        if batch_tokens is not None and batch_tokens < longest:
            raise UserError(
                f"training.batch_tokens {batch_tokens} cannot hold a text of {longest} ids; raise it, "
                "or lower data.max_length"
            )
        return longest
    if limit > encoder.max_length:
        raise UserError(
            f"data.max_length {limit} is more than {model} reads ({encoder.max_length} ids); "
            f"set it with --set data.max_length={encoder.max_length}"
        )
    if limit <= around:
        raise UserError(
            f"data.max_length {limit} leaves no room for text next to the {around} ids of the template and the special "
            f"tokens; set it with --set data.max_length={around + 32}"
        )
    return limit


def device_of_process(requested: str | None) -> str | None:
    """The device of this process: each of several processes on a machine has its own GPU, if there are enough.

    Raises:
        UserError: for one numbered GPU, which several processes cannot share.
    """
    process = started()
    if not process.several:
        return requested
    if requested is not None and requested.startswith("cuda:"):
        raise UserError(
            f"--device {requested}: {process.count} processes need a GPU each; use --device cuda, or leave it out"
        )
    kind = str(default_device()) if requested is None else requested
    return str(usable_device(f"cuda:{gpu_of(process)}")) if kind == "cuda" else kind
