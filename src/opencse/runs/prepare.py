"""Prepares a run: makes data sets of its texts, and decides steps, precision and chunks; the plan says what and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from opencse.adapting.selection import DevScore, Selector
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.kernels.precision import Precision, choose_precision
from opencse.objective.inputs import InputBuilder
from opencse.objective.objective import Objective
from opencse.objective.vectors.chunks import Chunks
from opencse.objective.vectors.requests import HardNegatives
from opencse.progress import Progress
from opencse.recipes.recipe import Resolved
from opencse.runs.bounds import Sizes, bounded_settings
from opencse.runs.data_sets import mixture_of
from opencse.runs.forward import recording_in_words
from opencse.runs.opened import OpenedRun
from opencse.runs.plan import Plan
from opencse.text.batches import Batches
from opencse.text.given import TextSource
from opencse.training.budget import choose_chunks
from opencse.training.callbacks import Callback, Callbacks
from opencse.training.mixture import FIRST, DataSet, MixingPlan
from opencse.training.pace import mean_seconds_per_step
from opencse.training.trainer import Trainer


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
