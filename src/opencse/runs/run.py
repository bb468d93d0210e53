"""Runs a training job: resolves the recipe, prepares, trains, and writes the encoder to keep."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import torch
from torch import nn

from opencse.arrays import Flags
from opencse.documents.dev_choice import AUTO, DevChoice, load_selector, without_trained
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.network import default_device, usable_device
from opencse.errors import InterruptedRunError, UserError
from opencse.files import made_folder
from opencse.kernels.precision import Precision, choose_precision
from opencse.model_folder.locate import BUILTIN, locate
from opencse.model_folder.reading import has_layers, load_masked_lm_head
from opencse.modules.token_modules import TokenWeights
from opencse.objective.context import Context
from opencse.objective.inputs import InputBuilder
from opencse.objective.objective import Objective
from opencse.objective.vectors.chunks import Chunks
from opencse.objective.vectors.requests import HardNegatives, LmHead, Masked
from opencse.objective.views.base import ChangesTokens
from opencse.objective.views.spans import DrawsTexts
from opencse.processes import ALONE, Processes, gpu_of, joined, started
from opencse.progress import Counted, Progress, Silent
from opencse.recipes.recipe import Recipe, Resolved, model_named, resolve_recipe
from opencse.runs.finish import TrainResult, after_kill, after_stop, start_score, write_outcome
from opencse.runs.folder import RunFolder
from opencse.runs.plan import (
    FurtherSet,
    GivenSet,
    Plan,
    PreparedSet,
    Sizes,
    bounded_settings,
    fingerprint_of_texts,
    further_sets,
    mixture_of,
    text_for,
    training_of_set,
    with_given_sets,
)
from opencse.runs.record import Outcome, RunRecord
from opencse.runs.start import (
    NewStart,
    Start,
    build_encoder,
    choose_forward,
    put_weights,
    recording_in_words,
    settle,
    weigh_tokens,
)
from opencse.streams import seed_of
from opencse.text.corpus import Corpus, CorpusFacts, tokenise
from opencse.text.duplicates import find_near_duplicates
from opencse.text.given import TextSource
from opencse.text.left_out_rows import say_left_out_rows
from opencse.training.batches import Batches, sample_rows
from opencse.training.callbacks import Callback, Callbacks, open_tracker
from opencse.training.evaluations import probes_of, require_known, require_sound
from opencse.training.schedule import (
    FIRST,
    DataSet,
    MixingPlan,
    choose_chunks,
    keep_freed_memory,
    mean_seconds_per_step,
    plan_batches,
)
from opencse.training.selection import DevScore, Selector
from opencse.training.settings import TrainingSettings
from opencse.training.trainer import Trainer, stop_requests


def resolve_for_run(
    recipe: str | Recipe,
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
    if isinstance(recipe, Recipe):
        if preset is not None or settings:
            raise UserError("preset and settings need a recipe's name; change the Recipe object instead")
        return Resolved(recipe, (), model, _explicit_encoder_settings(recipe))
    resolved = resolve_recipe(recipe, preset=preset, model=model, overrides=settings)
    backbone = resolved.backbone
    if model == BUILTIN and backbone is not None and backbone.model != BUILTIN:
        raise UserError(
            f"{resolved.recipe.name}: {resolved.presets[0]} is a preset for {backbone.model}, and the model is the "
            f"built-in encoder; choose the model too, with --model {resolved.presets[0]}"
        )
    if is_new or backbone is not None or BUILTIN not in resolved.recipe.presets or has_layers(resolved.model or model):
        return resolved
    presets = f"{preset}:{BUILTIN}" if preset else BUILTIN
    return resolve_recipe(recipe, preset=presets, model=model, overrides=settings)


def require_settings(
    recipe: str | Recipe,
    *,
    presets: Sequence[str | None] = (None,),
    settings: tuple[str, ...],
    model: str,
    is_new: bool = False,
) -> None:
    """Refuses settings that suit the recipe with none of the presets, before a text is read, which may take long.

    Example:
        >>> require_settings("adapt", presets=(None, "sentences"), settings=("training.epochs=2",), model=BUILTIN)

    Args:
        recipe: see `resolve_for_run`, as for the other arguments.
        presets: one of these will be chosen by the text.
        settings: see `resolve_for_run`.
        model: see `resolve_for_run`.
        is_new: see `resolve_for_run`.

    Raises:
        UserError: for a fault in the recipe or a setting.
    """
    faults: list[UserError] = []
    for preset in presets:
        try:
            resolve_for_run(recipe, preset=preset, settings=settings, model=model, is_new=is_new)
            return
        except UserError as error:
            faults.append(error)
    raise faults[0]


def _explicit_encoder_settings(recipe: Recipe) -> frozenset[str]:
    """The keys of the encoder that a recipe made in Python sets."""
    encoder = recipe.encoder
    explicit = {"encoder.pooling": encoder.pooling is not None, "encoder.head": encoder.head.kind != "none"}
    return frozenset(key for key, is_set in explicit.items() if is_set)


AUTO_LENGTH = 256
"""Most ids of a text that ``data.max_length=auto`` reads."""


@dataclass(frozen=True)
class FirstSet:
    """The text that a run is given first, ready for its first step.

    Attributes:
        data_set: what its steps are made of.
        facts: counts of the text.
        near_duplicates: rows left out; None where they were not looked for.
        sample: (rows drawn, rows to draw from) where a share is trained on; None without ``data.rows`` and
            ``data.share``.
        token_weights: computed from the text; None without ``encoder.token_weights``.
    """

    data_set: DataSet
    facts: CorpusFacts
    near_duplicates: int | None
    sample: tuple[int, int] | None
    token_weights: TokenWeights | None


@dataclass(frozen=True)
class OpenedRun:
    """The encoder and the objectives of a run, checked against each other before any text is read.

    Attributes:
        start: the model where it is now, and the recipe with pooling and head decided.
        further: further data sets, each with an objective of its own.
        model: the start as the user knows it, which differs from ``start.model`` until a new start has moved to the
            run's folder.
        encoder: with the recipe's pooling and head.
        objectives: of the text, and of each further data set.
        attention: what computes the training forward, in words; see `choose_forward`.
        max_length: ids of a text that training reads.
        world: the processes that train together.
        progress: receives decisions and progress.
    """

    start: Start
    further: Sequence[FurtherSet]
    model: str
    encoder: SentenceEncoder
    objectives: Sequence[Objective]
    attention: str
    max_length: int
    world: Processes
    progress: Progress

    @classmethod
    def open(
        cls,
        start: Start,
        further: Sequence[FurtherSet],
        *,
        model: str,
        device: str | None,
        trust_remote_code: bool,
        world: Processes,
        progress: Progress,
    ) -> OpenedRun:
        """Opens the start for training, and checks it with every objective.

        Args:
            start: see above, as ``further``, ``model``, ``world`` and ``progress``.
            further: see above.
            model: see above.
            device: where to train; None: a GPU, if there is one.
            trust_remote_code: run the Python code in the model's folder.
            world: see above.
            progress: see above.

        Raises:
            UserError: for settings that cannot work with this model.
        """
        recipe = start.recipe
        progress.say(f"loading    {model}")
        encoder = build_encoder(recipe, start.model, device, trust_remote_code)
        max_length = longest_text(encoder, recipe, model)
        settings = [recipe.objective, *(one.objective for one in further)]
        objectives = [Objective.from_settings(one).to(encoder.device) for one in settings]
        for one in objectives:
            one.check(Context(one, encoder=encoder, model=start.model, own_dropout=recipe.encoder.dropout is None))
        _add_masked_lm_head(encoder, objectives, start.model, trust_remote_code)
        attention = choose_forward(encoder, recipe.training.packed)
        return cls(start, further, model, encoder, objectives, attention, max_length, world, progress)

    @property
    def recipe(self) -> Recipe:
        """The recipe of the run."""
        return self.start.recipe

    def first_set(self, text: TextSource, dev: Selector | None, explicit: Collection[str]) -> FirstSet:
        """Makes a data set of the run's text, and checks that the encoder reads it.

        Args:
            text: what is trained on.
            dev: holds out some of its rows.
            explicit: dotted keys of the settings that the user chose.

        Raises:
            UserError: for a text of one example, or one that the encoder does not know.
        """
        recipe, encoder, objective = self.recipe, self.encoder, self.objectives[0]
        corpus = self._tokenised(text, objective)
        weights = None
        if recipe.encoder.token_weights is not None:
            weights = weigh_tokens(encoder, corpus.every_text(), explicit="encoder.token_weights" in explicit)
        put_weights(encoder, weights)
        require_known(encoder, corpus, self.model)
        fix = "choose another pooling, for instance with --set encoder.pooling=mean"
        require_sound(encoder, probes_of(corpus), f"{self.model}, untrained", fix)
        near = near_duplicates(text, recipe, self.progress)
        inputs = InputBuilder(corpus, encoder.tokenizer, objective, recipe.training.seed, _left_out(dev, near))
        sample = _keep_sample(inputs, recipe, text)
        if len(inputs) < 2:
            documents = isinstance(objective.view, DrawsTexts)
            fix = " documents (a blank line ends one in a text file; elsewhere each record is one)" * documents
            raise UserError(f"{text.location}: only one example; contrast needs at least two{fix}")
        data_set = self._begun(FIRST, objective, inputs, recipe.training)
        return FirstSet(data_set, corpus.facts, _count(near), sample, weights)

    def further_sets(self) -> list[PreparedSet]:
        """Makes the further data sets, and drops the masked-LM head if no part reads masked texts.

        A part that uses the head for other texts has made a copy of it when it began.

        Raises:
            UserError: for a text of one example, or one that the encoder does not know.
        """
        prepared = [self._further_set(*pair) for pair in zip(self.further, self.objectives[1:], strict=True)]
        if not any(isinstance(request, Masked) for one in self.objectives for request in one.reads):
            self.encoder.lm_head = None
        return prepared

    def _further_set(self, further: FurtherSet, objective: Objective) -> PreparedSet:
        """Makes a data set, whose draws have a seed of their own."""
        name, training = further.settings.name, self.recipe.training
        seed = seed_of(training.seed, f"data set {name}")
        corpus = self._tokenised(further.text, objective)
        require_known(self.encoder, corpus, self.model)
        near = near_duplicates(further.text, self.recipe, self.progress)
        inputs = InputBuilder(corpus, self.encoder.tokenizer, objective, seed, near)
        if len(inputs) < 2:
            raise UserError(f"data set {name}: {further.text.location}: only one example; at least two are needed")
        data_set = self._begun(name, objective, inputs, training_of_set(training, further.settings, seed))
        return PreparedSet(data_set, further.settings, corpus.facts, _count(near))

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

    def _begun(self, name: str, objective: Objective, inputs: InputBuilder, training: TrainingSettings) -> DataSet:
        """Plans the batches of a data set, and begins its objective."""
        batches = plan_batches(inputs, training)
        classes = len(inputs.corpus.facts.classes)
        objective.begin(self.encoder, batch_size=batches.batch_size, seed=training.seed, classes=classes)
        return DataSet(name, objective, inputs, batches)


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


def near_duplicates(text: TextSource, recipe: Recipe, progress: Progress) -> Flags | None:
    """(M,) rows that nearly repeat an earlier one; None where ``data.near_duplicates`` is unset."""
    threshold = recipe.data.near_duplicates
    if threshold is None:
        return None
    progress.say("looking for near duplicates")
    return find_near_duplicates((row for _, row in text.rows_with_documents()), threshold).rows


def _left_out(dev: Selector | None, near: Flags | None) -> Flags | None:
    """(M,) rows that are not trained on: held out by ``dev``, or near duplicates; None where there are none."""
    held_out = None if dev is None else dev.left_out
    if near is None or held_out is None:
        return held_out if near is None else near
    return near | held_out


def _count(rows: Flags | None) -> int | None:
    return None if rows is None else int(rows.sum())


def _keep_sample(inputs: InputBuilder, recipe: Recipe, text: TextSource) -> tuple[int, int] | None:
    """Keeps the sample of ``data.rows`` or ``data.share``: (rows drawn, rows to draw from); None without these."""
    data, rows = recipe.data, inputs.anchor_rows
    drawn = sample_rows(rows, count=data.rows, share=data.share, seed=data.sample_seed, source=text.location)
    if drawn is None:
        return None
    inputs.keep_rows(drawn)
    return len(drawn), len(rows)


def _add_masked_lm_head(
    encoder: SentenceEncoder, objectives: Sequence[Objective], model: str, trust_remote_code: bool
) -> None:
    """Opens the masked-LM head of the model if a term reads it."""
    requests = [request for one in objectives for request in one.reads if isinstance(request, LmHead)]
    if requests:
        embeddings = cast(nn.Embedding, encoder.backbone.get_input_embeddings())
        tied = all(request.tied for request in requests)
        instead = " and ".join(sorted({request.instead for request in requests}))
        head = load_masked_lm_head(
            locate(model), embeddings, tied=tied, trust_remote_code=trust_remote_code, instead=instead
        )
        encoder.lm_head = head.to(encoder.device)


@dataclass(frozen=True)
class Prepared:
    """A run ready for its first step."""

    plan: Plan
    encoder: SentenceEncoder
    objective: Objective
    inputs: InputBuilder
    batches: Batches
    others: tuple[DataSet, ...] = ()
    mixture: MixingPlan | None = None

    def with_time(self, most_seconds: float) -> Plan:
        """The plan with the time that its steps take on this machine, by some that are made and undone."""
        plan = self.plan
        sets = [DataSet(FIRST, self.objective, self.inputs, self.batches), *self.others]
        training = plan.recipe.training
        pace = mean_seconds_per_step(
            self.encoder, sets, self.mixture, training, plan.precision, plan.chunks, most_seconds
        )
        return replace(plan, seconds_per_step=pace)

    def trainer(
        self,
        folder: Path,
        progress: Progress,
        *,
        dev: Selector | None,
        start: DevScore | None,
        callbacks: Sequence[Callback] = (),
    ) -> Trainer:
        """Creates the trainer of the run; see `Trainer` for the arguments."""
        return Trainer(
            encoder=self.encoder,
            objective=self.objective,
            inputs=self.inputs,
            batches=self.batches,
            steps=self.plan.steps,
            settings=self.plan.recipe.training,
            precision=self.plan.precision,
            dev=dev,
            folder=folder,
            progress=progress,
            start=start,
            chunks=self.plan.chunks,
            callbacks=Callbacks(callbacks),
            others=self.others,
            mixture=self.mixture,
        )


@dataclass(frozen=True)
class _Schedule:
    """How the steps of a run are made.

    Attributes:
        mixture: which data set each step works on; None with one alone.
        batches_per_epoch: of all data sets.
        precision: arithmetic of the forward pass.
        chunks: how a step's rows are encoded.
        chunks_reason: why, for the user.
        steps: of the run.
    """

    mixture: MixingPlan | None
    batches_per_epoch: int
    precision: Precision
    chunks: Chunks
    chunks_reason: str
    steps: int

    @classmethod
    def of(cls, opened: OpenedRun, sets: Sequence[DataSet], mixture: MixingPlan | None, steps: int | None) -> _Schedule:
        """Decides precision, chunks and, unless they are known, the steps."""
        training, encoder = opened.recipe.training, opened.encoder
        batches_per_epoch = sets[0].batches.steps_per_epoch
        if mixture is not None:
            batches_per_epoch = mixture.steps_per_epoch * training.accumulate
        precision = choose_precision(training.precision, encoder.device)
        largest = max(sets, key=lambda one: (2 + one.inputs.hard) * one.batches.batch_size)
        networks = max(len(one.objective.networks) for one in sets)
        chunks, reason = choose_chunks(
            training.chunk, encoder, largest.inputs, largest.batches.batch_size, precision, opened.world, networks
        )
        if steps is None:
            steps = _count_steps(opened, sets, mixture, precision, chunks)
        return cls(mixture, batches_per_epoch, precision, chunks, reason, steps)


def prepare(
    opened: OpenedRun, resolved: Resolved, text: TextSource, dev: Selector | None, steps: int | None
) -> Prepared:
    """Tokenises everything that the run needs, and plans it; nothing is written except the token cache.

    Args:
        opened: encoder and objectives of the run.
        resolved: the recipe as it was requested, for the plan.
        text: what is trained on.
        dev: selects the encoder to keep; None keeps the last one.
        steps: of the run, where it is known (a resumed run); None computes it from the training budget.

    Raises:
        UserError: for settings that cannot work with this text.
    """
    require_dev(opened.objectives[0], dev)
    first = opened.first_set(text, dev, resolved.explicit)
    others = opened.further_sets()
    sets = [first.data_set, *(one.data_set for one in others)]
    recipe, encoder = opened.recipe, opened.encoder
    schedule = _Schedule.of(opened, sets, mixture_of(recipe, first.data_set, others), steps)
    objective, inputs, batches = first.data_set.objective, first.data_set.inputs, first.data_set.batches
    sizes = Sizes(
        examples=len(inputs),
        batches_per_epoch=schedule.batches_per_epoch,
        steps=schedule.steps,
        batch_size=batches.batch_size,
        texts_per_step=inputs.texts_per_example * batches.batch_size,
        stores=objective.stores(),
        evaluates=dev is not None,
    )
    recording = recording_in_words(encoder, [one.objective for one in sets], recipe, schedule.chunks)
    plan = Plan(
        recipe=recipe,
        model=opened.model,
        preset=resolved.preset,
        replaced=resolved.replaced,
        dev=dev,
        corpus=first.facts,
        prompts=encoder.prompts,
        near_duplicates=first.near_duplicates,
        sample=first.sample,
        token_weights=first.token_weights,
        examples=len(inputs),
        steps=schedule.steps,
        batches_per_epoch=schedule.batches_per_epoch,
        others=tuple(others),
        mixture=schedule.mixture,
        batch_size=batches.batch_size,
        tokens_per_step=int(inputs.lengths.sum()) // batches.steps_per_epoch * recipe.training.accumulate,
        hard=inputs.hard,
        reads_hard=HardNegatives() in objective.reads,
        negatives_per_anchor=objective.negatives_per_anchor(batches.batch_size, inputs.hard),
        precision=schedule.precision,
        attention=opened.attention + recording,
        device=str(encoder.device),
        parameters=sum(p.numel() for p in encoder.parameters()),
        trained=sum(p.numel() for p in encoder.parameters() if p.requires_grad),
        pooling=str(encoder.pooling),
        code=encoder.own_code,
        pooling_reason=opened.start.reason,
        chunks=schedule.chunks,
        chunks_reason=schedule.chunks_reason,
        bounded=tuple(bounded_settings(recipe.training, resolved.user_keys, sizes)),
        doubts=tuple(line for one in sets for line in one.objective.view.doubts(one.inputs.corpus)),
    )
    return Prepared(plan, encoder, objective, inputs, batches, tuple(sets[1:]), schedule.mixture)


def require_dev(objective: Objective, dev: Selector | None) -> None:
    """Refuses an objective whose encoder is chosen by dev data where there is none.

    Raises:
        UserError: naming the fix.
    """
    if objective.saved_encoder == "better" and dev is None:
        raise UserError(
            "objective.saved_encoder = better needs dev data to choose by; add --dev, or set first or second"
        )


def _count_steps(
    opened: OpenedRun, sets: Sequence[DataSet], mixture: MixingPlan | None, precision: Precision, chunks: Chunks
) -> int:
    """Steps that the training budget allows; a budget of minutes needs the pace, which is measured."""
    training, world, pace = opened.recipe.training, opened.world, None
    if training.minutes is not None:
        pace = world.share(mean_seconds_per_step(opened.encoder, sets, mixture, training, precision, chunks))
        opened.progress.say(f"pace       {pace:.3f} s per step, measured")
    if mixture is None:
        return training.steps(sets[0].batches.steps_per_epoch, int(sets[0].inputs.lengths.sum()), pace)
    seen = [
        count * training.accumulate / one.batches.steps_per_epoch
        for one, count in zip(sets, mixture.steps, strict=True)
    ]
    tokens = sum(float(one.inputs.lengths.sum()) * share for one, share in zip(sets, seen, strict=True))
    return training.steps(mixture.steps_per_epoch * training.accumulate, round(tokens), pace)


_SECONDS_TIMED = 5.0
"""How long a dry run makes steps to estimate the time."""


@dataclass(frozen=True, kw_only=True)
class TrainJob:
    """Everything that decides what a run does; see `opencse.train` for the arguments.

    Attributes:
        begin: writes a new start to the run's folder, which ``model`` then names; None opens ``model``.
        also: further texts, each with the recipe of its objective; see `with_given_sets`.

    Example:
        >>> import tempfile
        >>> from opencse.runs.run import TrainJob
        >>> from opencse.text.given import open_texts
        >>> text = open_texts([f"Lamp number {n} is lit." for n in range(20)])
        >>> job = TrainJob(text=text, settings=("training.max_steps=2", "training.batch_size=4"), dev=None)
        >>> job.resolved.recipe.name, job.resolved.preset
        ('simcse', 'opencse-mini')
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     job.run(f"{folder}/encoder").kept
        'last'
    """

    text: TextSource
    recipe: str | Recipe = "simcse"
    model: str = BUILTIN
    preset: str | None = None
    settings: tuple[str, ...] = ()
    dev: DevChoice = AUTO
    device: str | None = None
    trust_remote_code: bool = False
    begin: NewStart | None = None
    metric: str | None = None
    callbacks: tuple[Callback, ...] = ()
    track: str | None = None
    keep_identical_ids: bool = False
    also: tuple[GivenSet, ...] = ()

    @property
    def resolved(self) -> Resolved:
        """The recipe with presets, settings and further data sets, and the model that it is for; computed once.

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

    @cached_property
    def further(self) -> list[FurtherSet]:
        """The further data sets of the run.

        Raises:
            UserError: for one that cannot be opened, or has no labels where its objective reads them.
        """
        resolved, texts = self._with_sets
        return further_sets(resolved.recipe, texts)

    @property
    def start_model(self) -> str:
        """The model to start from: the built-in encoder, a folder, or a Hub id (also where a preset names it)."""
        return self.model if isinstance(self.recipe, Recipe) else model_named(self.recipe, self.model)

    @cached_property
    def training_text(self) -> TextSource:
        """The text, with the last column of each row as its label where the recipe learns from labels, or as documents.

        Raises:
            UserError: for a fault in the recipe, or a text without the labels that it needs.
        """
        recipe = self.resolved.recipe
        objective = Objective.from_settings(recipe.objective)
        if objective.label != "score" and recipe.data.scale is not None:
            raise UserError("data.scale is the largest possible score, and this recipe reads no scores; leave it out")
        return text_for(objective, self.text, recipe.data.scale)

    def fingerprint_of_text(self) -> str:
        """A hash of all texts of the run, with their labels; that of its `Identity`.

        Raises:
            UserError: as `training_text` and `further`.
        """
        texts = [self.training_text, *(one.text for one in self.further)]
        return fingerprint_of_texts([text.fingerprint() for text in texts])

    def start(self, location: str | None = None) -> Start:
        """Decides pooling and head of the start; see `opencse.runs.start.settle`.

        Args:
            location: the folder of the start, where it has not yet been moved to ``start_model``.

        Raises:
            UserError: for a fault in the recipe or a setting, or if there is no such model.
        """
        return settle(self.resolved.recipe, location or self.start_model, self.resolved.explicit)

    def require_fitting(self, dev: Selector | None) -> None:
        """Refuses a text without the columns that the recipe reads, and dev data that is missing; opens no model.

        Args:
            dev: what the encoder to keep is selected by.

        Raises:
            UserError: naming the fix.
        """
        objective = Objective.from_settings(self.resolved.recipe.objective)
        require_dev(objective, dev)
        text = self.training_text
        for _, row in islice(text.rows_with_documents(), 1):
            objective.view.require_width(len(row), text.name)

    def prepare(
        self, progress: Progress, *, steps: int | None = None, world: Processes = ALONE, location: str | None = None
    ) -> Prepared:
        """Opens and tokenises everything, ready to train; nothing is written except the token cache.

        Args:
            progress: receives decisions and progress.
            steps: of the run, where it is known (a resumed run); by default the training budget decides.
            world: the processes that train together.
            location: see `start`.
        """
        start = self.start(location)
        selector = load_selector(self.dev, self.training_text, self.metric, keep_identical_ids=self.keep_identical_ids)
        if selector is not None:
            texts = (self.training_text, *(one.text for one in self.further))
            selector, notes = without_trained(selector, (row for one in texts for _, row in one.rows_with_documents()))
            for line in notes:
                progress.say(line)
        opened = OpenedRun.open(
            start,
            self.further,
            model=self.start_model,
            device=device_of_process(self.device),
            trust_remote_code=self.trust_remote_code,
            world=world,
            progress=progress,
        )
        return prepare(opened, self.resolved, self.training_text, selector, steps)

    def dry_run(
        self, out: str | Path, *, resume: bool = False, overwrite: bool = False, progress: Progress | None = None
    ) -> Plan:
        """Returns what `run` would do, after the same checks; nothing is written except the token cache.

        Raises:
            UserError: as `run` would.
        """
        progress = progress or Silent()
        folder = RunFolder.at(out)
        folder.require(resume=resume, overwrite=overwrite, start=self._start_folder())
        with made_folder(folder.path):  # fails now if the folder could not be created
            pass
        record = folder.record() if resume and folder.record_file.is_file() else None
        with TemporaryDirectory() as elsewhere:
            location = self._write_start(record, Path(elsewhere), progress, ALONE)
            prepared = self.prepare(progress, steps=None if record is None else record.steps, location=location)
            if record is not None:
                folder.require_same(record, prepared.plan.identity())
            return prepared.with_time(_SECONDS_TIMED)

    def run(
        self, out: str | Path, *, resume: bool = False, overwrite: bool = False, progress: Progress | None = None
    ) -> TrainResult:
        """Trains in the folder ``out``, alone or as one of several processes; see `opencse.train`.

        Of several processes, the first one alone writes to the folder and reports progress.
        """
        folder = RunFolder.at(out)
        try:
            with joined(device_of_process(self.device) or "") as world:
                progress = progress if progress is not None and world.first else Silent()
                lock = folder.held(progress, resume=resume, overwrite=overwrite, start=self._start_folder())
                with lock if world.first else nullcontext() as record_before:
                    record = world.share(record_before)
                    keep_freed_memory()
                    location = self._write_start(record, folder.staged_start, progress, world)
                    steps = None if record is None else record.steps
                    prepared = self.prepare(progress, steps=steps, world=world, location=location)
                    plan = prepared.plan
                    for line in plan.lines():
                        progress.say(line)
                    if not world.several:
                        report_idle_gpus(prepared.encoder.device, progress)
                    world.wait()  # all have read a new start, so that it can be moved
                    record = _begin_or_continue(folder, record, plan, progress, world)
                    if record.result is not None:
                        progress.say(f"this run had finished before: {record.result.verdict}")
                        return TrainResult.of(folder, record.result, plan)
                    score = start_score(plan, record, folder, progress, world)
                    callbacks = (*self.callbacks, *self._trackers(folder, plan)) if world.first else ()
                    trainer = prepared.trainer(folder.path, progress, dev=plan.dev, start=score, callbacks=callbacks)
                    began = time.perf_counter()
                    with _best_kept_on_stop(folder, plan, progress, world):
                        trainer.run(resume=resume)
                    record.seconds = round(time.perf_counter() - began, 1)
                    return TrainResult.of(folder, _finish_run(trainer, plan, folder, record, progress, world), plan)
        except KeyboardInterrupt:
            raise InterruptedRunError(after_kill(folder)) from None

    def _start_folder(self) -> Path | None:
        """The folder of the start, if it is one that was there before the run."""
        folder = Path(self.start_model)
        return folder if self.begin is None and folder.is_dir() else None

    def _write_start(self, record: RunRecord | None, staging: Path, progress: Progress, world: Processes) -> str | None:
        """Writes a new start to ``staging`` where the run needs one that it has not written before.

        Returns:
            ``staging``; None where the start is at ``start_model``.
        """
        if self.begin is None:
            return None
        if record is not None:
            self.begin.require_same(Path(self.start_model))
            return None
        if world.first:
            self.begin.write(self.training_text, staging, self.resolved.recipe.training.seed, progress)
        world.wait()
        return str(staging)

    def _trackers(self, folder: RunFolder, plan: Plan) -> list[Callback]:
        if not self.track:
            return []
        settings = plan.recipe.model_dump(mode="json", exclude={"presets"}) | {"model": plan.model}
        return [open_tracker(self.track, folder.path, settings)]


def _begin_or_continue(
    folder: RunFolder, record: RunRecord | None, plan: Plan, progress: Progress, world: Processes
) -> RunRecord:
    """Writes the record of a new run, or checks that the run in the folder is the same and can continue."""
    if record is None:
        return world.share(folder.begin(plan.record) if world.first else None)
    identity = plan.identity()
    folder.require_same(record, identity)
    record.identity = identity
    if world.share(record.ended_early and folder.has_checkpoint()):
        folder.reopen(record, progress, write=world.first)
    return record


@contextmanager
def _best_kept_on_stop(folder: RunFolder, plan: Plan, progress: Progress, world: Processes) -> Iterator[None]:
    """Writes the best encoder so far if the user stops the run within the block.

    Raises:
        InterruptedRunError: that names what was written, and how to continue.
    """
    try:
        yield
    except InterruptedRunError as stopped:
        message = str(stopped)
        if world.first:
            progress.say("stopping   the best model so far is being written; Ctrl-C once more stops at once")
            message = after_stop(folder, message, trust_remote_code=bool(plan.code))
        world.wait()
        raise InterruptedRunError(message) from None


def _finish_run(
    trainer: Trainer, plan: Plan, folder: RunFolder, record: RunRecord, progress: Progress, world: Processes
) -> Outcome:
    """Writes the encoder to keep and the outcome; Ctrl-C meanwhile, or during the last step, stops only after that."""
    with stop_requests(once=not world.several) as stop:
        if world.first:
            try:
                write_outcome(trainer, plan, folder, record, progress)
            except UserError as error:  # a full disk, for example
                saved = folder.has_checkpoint()
                how = "continues from the checkpoint" if saved else "begins again, as no checkpoint was written"
                raise UserError(f"{error}; the same command with --resume {how}") from error
    outcome = world.share(record.result)
    if outcome is None:
        raise RuntimeError("the first process shared no outcome")
    trainer.callbacks.on_end(folder.path, outcome.verdict)
    if (stop.is_set() or trainer.stop_at_end) and not world.several:
        raise KeyboardInterrupt
    return outcome


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


def report_idle_gpus(device: torch.device, progress: Progress) -> None:
    """Reports how to use the GPUs that a run of one process leaves idle."""
    count = torch.cuda.device_count() if device.type == "cuda" else 1
    if count > 1:
        progress.say(
            f"GPUs       1 of {count} is used; to use all of them: torchrun --nproc-per-node {count} "
            "--no-python opencse train ... (docs/encoding.md)"
        )
