"""Prepares a run: opens and checks the encoder, tokenises the text, and decides batches, steps and precision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from torch import nn

from opencse.adapting.selection import DevScore, Selector
from opencse.arrays import Flags
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.kernels.precision import Precision, choose_precision
from opencse.model_folder.locate import locate
from opencse.model_folder.masked_lm import load_masked_lm_head
from opencse.objective.context import Context
from opencse.objective.inputs import InputBuilder
from opencse.objective.objective import Objective
from opencse.objective.vectors.chunks import Chunks
from opencse.objective.vectors.requests import HardNegatives, LmHead, Masked
from opencse.objective.views.base import ChangesTokens
from opencse.processes import Processes
from opencse.progress import Counted, Progress
from opencse.recipes.recipe import Recipe, Resolved
from opencse.runs.bounds import Sizes, bounded_settings
from opencse.runs.data_sets import FurtherSet, PreparedSet, mixture_of, training_of_set
from opencse.runs.forward import choose_forward, recording_in_words
from opencse.runs.plan import Plan
from opencse.runs.start import Start, build_encoder, put_weights, weigh_tokens
from opencse.streams import seed_of
from opencse.text.batches import Batches
from opencse.text.corpus import Corpus, tokenise
from opencse.text.duplicates import find_near_duplicates
from opencse.text.given import TextSource
from opencse.text.sampling import sample_rows
from opencse.training.budget import choose_chunks
from opencse.training.callbacks import Callback, Callbacks
from opencse.training.mixture import FIRST, DataSet, MixingPlan
from opencse.training.pace import mean_seconds_per_step, plan_batches
from opencse.training.soundness import probes_of, require_known, require_sound
from opencse.training.trainer import Trainer

AUTO_LENGTH = 256
"""Most ids of a text that ``data.max_length=auto`` reads."""


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
class _Opened:
    """A run's encoder, and what decides how its texts are read.

    Attributes:
        encoder: with the recipe's pooling and head.
        recipe: of the run.
        longest: ids of a text that training reads.
        model: the start, for messages.
        world: the processes that train together.
        progress: receives decisions and progress.
    """

    encoder: SentenceEncoder
    recipe: Recipe
    longest: int
    model: str
    world: Processes
    progress: Progress

    def tokenised(self, text: TextSource, objective: Objective) -> Corpus:
        """The text as ids, from the token cache if possible; the first of several processes fills the cache."""
        encoder = self.encoder
        with self.world.first_alone():
            corpus = tokenise(
                text,
                encoder.tokenizer,
                self.longest,
                prompts=encoder.prompts.columns,
                words=isinstance(objective.view, ChangesTokens),
                progress=Counted(self.progress, "tokenising"),
                say=self.progress.say,
            )
        unpooled = [encoder.unpooled(prompt) for prompt in encoder.prompts.columns.of(corpus.width)]
        return replace(corpus, unpooled=tuple(unpooled) if any(unpooled) else ())

    def prepare_set(self, further: FurtherSet, objective: Objective) -> PreparedSet:
        """Tokenises a further data set, plans its batches, begins its objective; its draws have a seed of their own."""
        name, training = further.settings.name, self.recipe.training
        seed = seed_of(training.seed, f"data set {name}")
        corpus = self.tokenised(further.text, objective)
        require_known(self.encoder, corpus, self.model)
        near = near_duplicates(further.text, self.recipe, self.progress)
        inputs = InputBuilder(corpus, self.encoder.tokenizer, objective, seed, near)
        if len(inputs) < 2:
            raise UserError(f"data set {name}: {further.text.location}: only one example; at least two are needed")
        batches = plan_batches(inputs, training_of_set(training, further.settings, seed))
        classes = len(corpus.facts.classes)
        objective.begin(self.encoder, batch_size=batches.batch_size, seed=seed, classes=classes)
        data_set = DataSet(name, objective, inputs, batches)
        return PreparedSet(data_set, further.settings, corpus.facts, None if near is None else int(near.sum()))

    def count_steps(
        self, sets: Sequence[DataSet], mixture: MixingPlan | None, precision: Precision, chunks: Chunks
    ) -> int:
        """Steps that the training budget allows; a budget of minutes needs the pace, which is measured."""
        training, pace = self.recipe.training, None
        if training.minutes is not None:
            pace = self.world.share(mean_seconds_per_step(self.encoder, sets, mixture, training, precision, chunks))
            self.progress.say(f"pace       {pace:.3f} s per step, measured")
        if mixture is None:
            return training.steps(sets[0].batches.steps_per_epoch, int(sets[0].inputs.lengths.sum()), pace)
        seen = [
            count * training.accumulate / one.batches.steps_per_epoch
            for one, count in zip(sets, mixture.steps, strict=True)
        ]
        tokens = sum(float(one.inputs.lengths.sum()) * share for one, share in zip(sets, seen, strict=True))
        return training.steps(mixture.steps_per_epoch * training.accumulate, round(tokens), pace)


def prepare(
    start: Start,
    resolved: Resolved,
    text: TextSource,
    dev: Selector | None,
    *,
    further: Sequence[FurtherSet] = (),
    model: str,
    device: str | None,
    trust_remote_code: bool,
    steps: int | None,
    world: Processes,
    progress: Progress,
) -> Prepared:
    """Opens and tokenises everything that the run needs; nothing is written except the token cache.

    Args:
        start: the model where it is now, and the recipe with pooling and head decided.
        resolved: the recipe as it was requested, for the plan.
        text: what is trained on.
        dev: selects the encoder to keep; None keeps the last one.
        further: further data sets, each with an objective of its own.
        model: the start as the user knows it, which differs from ``start.model`` until a new start has moved to the
            run's folder.
        device: where to train; a GPU by default, if there is one.
        trust_remote_code: run the Python code in the model's folder.
        steps: of the run, where it is known (a resumed run); None computes it from the training budget.
        world: the processes that train together.
        progress: receives decisions and progress.

    Raises:
        UserError: for settings that cannot work with this model or text.
    """
    recipe = start.recipe
    progress.say(f"loading    {model}")
    encoder = build_encoder(recipe, start.model, device, trust_remote_code)
    opened = _Opened(encoder, recipe, longest_text(encoder, recipe, model), model, world, progress)
    objective = Objective.from_settings(recipe.objective).to(encoder.device)
    require_dev(objective, dev)
    objectives = [objective, *(Objective.from_settings(one.objective).to(encoder.device) for one in further)]
    for one in objectives:
        one.check(Context(one, encoder=encoder, model=start.model, own_dropout=recipe.encoder.dropout is None))
    _add_masked_lm_head(encoder, objectives, start.model, trust_remote_code)
    attention = choose_forward(encoder, recipe.training.packed, compiled=recipe.training.compile)
    corpus = opened.tokenised(text, objective)
    weights = None
    if recipe.encoder.token_weights is not None:
        explicit = "encoder.token_weights" in resolved.explicit
        weights = weigh_tokens(encoder, corpus.every_text(), explicit=explicit)
    put_weights(encoder, weights)
    require_known(encoder, corpus, model)
    fix = "choose another pooling, for instance with --set encoder.pooling=mean"
    require_sound(encoder, probes_of(corpus), f"{model}, untrained", fix)
    near = near_duplicates(text, recipe, progress)
    inputs = InputBuilder(corpus, encoder.tokenizer, objective, recipe.training.seed, _left_out(dev, near))
    sample = _keep_sample(inputs, recipe, text)
    if len(inputs) < 2:
        raise UserError(f"{text.location}: only one example; contrast needs at least two")
    batches = plan_batches(inputs, recipe.training)
    seed, classes = recipe.training.seed, len(corpus.facts.classes)
    objective.begin(encoder, batch_size=batches.batch_size, seed=seed, classes=classes)
    others = [opened.prepare_set(one, other) for one, other in zip(further, objectives[1:], strict=True)]
    if not any(isinstance(request, Masked) for one in objectives for request in one.reads):
        encoder.lm_head = None  # a part that uses the head without masked texts has made its own copy
    sets = [DataSet(FIRST, objective, inputs, batches), *(one.data_set for one in others)]
    mixture = mixture_of(recipe, sets[0], others)
    precision = choose_precision(recipe.training.precision, encoder.device)
    largest = max(sets, key=lambda one: (2 + one.inputs.hard) * one.batches.batch_size)
    networks = max(len(one.objective.networks) for one in sets)
    chunks, chunks_reason = choose_chunks(
        recipe.training.chunk, encoder, largest.inputs, largest.batches.batch_size, precision, world, networks
    )
    if steps is None:
        steps = opened.count_steps(sets, mixture, precision, chunks)
    batches_per_epoch = batches.steps_per_epoch
    if mixture is not None:
        batches_per_epoch = mixture.steps_per_epoch * recipe.training.accumulate
    sizes = Sizes(
        examples=len(inputs),
        batches_per_epoch=batches_per_epoch,
        steps=steps,
        batch_size=batches.batch_size,
        texts_per_step=inputs.texts_per_example * batches.batch_size,
        stores=objective.stores(),
        evaluates=dev is not None,
    )
    plan = Plan(
        recipe=recipe,
        model=model,
        preset=resolved.preset,
        replaced=resolved.replaced,
        dev=dev,
        corpus=corpus.facts,
        prompts=encoder.prompts,
        near_duplicates=None if near is None else int(near.sum()),
        sample=sample,
        token_weights=weights,
        examples=len(inputs),
        steps=steps,
        batches_per_epoch=batches_per_epoch,
        others=tuple(others),
        mixture=mixture,
        batch_size=batches.batch_size,
        tokens_per_step=int(inputs.lengths.sum()) // batches.steps_per_epoch * recipe.training.accumulate,
        hard=inputs.hard,
        reads_hard=HardNegatives() in objective.reads,
        negatives_per_anchor=objective.negatives_per_anchor(batches.batch_size, inputs.hard),
        precision=precision,
        attention=attention + recording_in_words(encoder, [one.objective for one in sets], recipe, chunks),
        device=str(encoder.device),
        parameters=sum(p.numel() for p in encoder.parameters()),
        trained=sum(p.numel() for p in encoder.parameters() if p.requires_grad),
        pooling=str(encoder.pooling),
        code=encoder.own_code,
        pooling_reason=start.reason,
        chunks=chunks,
        chunks_reason=chunks_reason,
        bounded=tuple(bounded_settings(recipe.training, resolved.user_keys, sizes)),
        doubts=tuple(line for one in sets for line in one.objective.view.doubts(one.inputs.corpus)),
    )
    return Prepared(plan, encoder, objective, inputs, batches, tuple(sets[1:]), mixture)


def require_dev(objective: Objective, dev: Selector | None) -> None:
    """Refuses an objective whose encoder is chosen by dev data where there is none.

    Raises:
        UserError: naming the fix.
    """
    if objective.saved_encoder == "better" and dev is None:
        raise UserError(
            "objective.saved_encoder = better needs dev data to choose by; add --dev, or set first or second"
        )


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
