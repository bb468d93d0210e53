"""A training job: what was asked for -> a plan with reasons -> a run -> the kept encoder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from opencse.adapting.chosen import AUTO, DevChoice, load_selector, unseen
from opencse.adapting.selection import DevScore, Selector
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import InterruptedRunError, UserError
from opencse.kernels.precision import choose_precision
from opencse.model_folder.locate import BUILTIN
from opencse.objective.inputs import InputBuilder
from opencse.objective.objective import Objective
from opencse.objective.vectors.requests import HardNegatives
from opencse.objective.views.base import ChangesTokens
from opencse.outputs import made_folder
from opencse.processes import ALONE, Processes, joined
from opencse.progress import Counted, Progress, Silent
from opencse.recipes.recipe import Recipe, resolve_recipe
from opencse.runs.begin import NewStart
from opencse.runs.best_so_far import after_kill, after_stop
from opencse.runs.bounds import Sizes, bounded_settings
from opencse.runs.devices import own_device, tell_of_others
from opencse.runs.finish import TrainResult, finish, start_score
from opencse.runs.fitting import begin_parts, check_and_complete, choose_forward, longest_text, near_duplicates
from opencse.runs.folder import RunFolder
from opencse.runs.plan import Plan
from opencse.runs.record import RunRecord
from opencse.runs.start import Start, build_encoder, put_weights, settle, weigh_tokens
from opencse.runs.trackers import open_tracker
from opencse.text.batches import Batches
from opencse.text.corpus import tokenise
from opencse.text.given import TextSource
from opencse.training.budget import choose_chunks
from opencse.training.callbacks import Callback, Callbacks
from opencse.training.memory import keep_freed_memory
from opencse.training.pace import plan_batches, seconds_per_step
from opencse.training.soundness import probes_of, require_known, require_sound
from opencse.training.trainer import Trainer, stop_requests


@dataclass(frozen=True)
class Prepared:
    """A run ready to start."""

    plan: Plan
    encoder: SentenceEncoder
    objective: Objective
    inputs: InputBuilder
    batches: Batches

    def trainer(
        self,
        folder: Path,
        progress: Progress,
        *,
        dev: Selector | None,
        start: DevScore | None,
        callbacks: Sequence[Callback] = (),
    ) -> Trainer:
        """What makes the steps; see `Trainer`."""
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
        )


@dataclass(frozen=True)
class Asked:
    """What a job asks for.

    Attributes:
        recipe: with presets and settings applied.
        model: the built-in encoder, a folder, or a Hub id.
        preset: the presets applied, joined by colons; None if there are none.
        said: dotted keys of the settings that were asked for, not merely the packaged recipe's own.
        replaced: a line for each setting of a preset in whose place ``--set`` has another value.
    """

    recipe: Recipe
    model: str
    preset: str | None
    said: frozenset[str]
    replaced: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class TrainJob:
    """Everything that decides what a run does; see `opencse.train` for the arguments."""

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

    def resolve(self) -> Asked:
        """What is asked for, with presets and settings applied.

        Raises:
            UserError: for a fault in the recipe or a setting.
        """
        if isinstance(self.recipe, Recipe):
            if self.preset is not None or self.settings:
                raise UserError("preset and settings go with a recipe's name; change the Recipe itself instead")
            said = {"encoder.pooling"} if self.recipe.encoder.pooling is not None else set()
            said |= {"encoder.head"} if self.recipe.encoder.head.kind != "none" else set()
            return Asked(self.recipe, self.model, None, frozenset(said))
        resolved = resolve_recipe(self.recipe, preset=self.preset, model=self.model, overrides=self.settings)
        backbone = resolved.backbone
        if self.model == BUILTIN and backbone is not None and backbone.model != BUILTIN:
            raise UserError(
                f"{resolved.recipe.name}: {resolved.presets[0]} is a preset for {backbone.model}, and the model is the "
                f"built-in encoder; choose the model too, with --model {resolved.presets[0]}"
            )
        presets = ":".join(resolved.presets) or None
        return Asked(resolved.recipe, resolved.model or self.model, presets, resolved.said, resolved.replaced)

    def start(self) -> Start:
        """The start, with the recipe's pooling and head as they will be; see `opencse.runs.start.settle`.

        Raises:
            UserError: for a fault in the recipe or a setting, or if there is no such model.
        """
        asked = self.resolve()
        return settle(asked.recipe, asked.model, asked.said)

    def prepare(self, progress: Progress, *, steps: int | None = None, world: Processes = ALONE) -> Prepared:
        """Loads and tokenises everything, ready to train; nothing is written but the token cache.

        Args:
            progress: hears of it.
            steps: of the run, where they are settled already (a run that goes on); by default the budget decides.
            world: the processes that train together.
        """
        asked = self.resolve()
        start = settle(asked.recipe, asked.model, asked.said)
        recipe, model = start.recipe, start.model
        dev = load_selector(self.dev, self.text, self.metric, keep_identical_ids=self.keep_identical_ids)
        if dev is not None:
            dev, left_out_questions = unseen(dev, (row for _, row in self.text.rows_with_documents()))
            for line in left_out_questions:
                progress.say(line)
        progress.say(f"loading    {self.model}")
        encoder = build_encoder(recipe, model, self.device, self.trust_remote_code)
        longest = longest_text(encoder, recipe, model)
        objective = Objective.from_settings(recipe.objective).to(encoder.device)
        check_and_complete(encoder, objective, recipe, model, self.trust_remote_code)
        attention = choose_forward(encoder, recipe.training.packed)
        with world.first_alone():
            corpus = tokenise(
                self.text,
                encoder.tokenizer,
                longest,
                prompts=encoder.prompts.columns,
                words=isinstance(objective.view, ChangesTokens),
                progress=Counted(progress, "tokenising"),
                say=progress.say,
            )
        unpooled = [encoder.unpooled(prompt) for prompt in encoder.prompts.columns.of(corpus.width)]
        corpus = replace(corpus, unpooled=tuple(unpooled) if any(unpooled) else ())
        weights = None
        if recipe.encoder.token_weights is not None:
            weights = weigh_tokens(encoder, corpus.every_text(), asked="encoder.token_weights" in asked.said)
        put_weights(encoder, weights)
        pool = "choose another pooling, for instance with --set encoder.pooling=mean"
        require_known(encoder, corpus, model)
        require_sound(encoder, probes_of(corpus), f"{model}, untrained", pool)
        near = near_duplicates(self.text, recipe, progress)
        left_out = None if dev is None else dev.left_out
        if near is not None:
            left_out = near if left_out is None else near | left_out
        inputs = InputBuilder(corpus, encoder.tokenizer, objective, recipe.training.seed, left_out)
        if len(inputs) < 2:
            raise UserError(f"{self.text.location}: one example only; contrast needs at least two")
        batches = plan_batches(inputs, recipe.training)
        begin_parts(encoder, objective, batches, recipe.training.seed)
        tokens = int(inputs.lengths.sum())
        precision = choose_precision(recipe.training.precision, encoder.device)
        chunks, why = choose_chunks(
            recipe.training.chunk, encoder, inputs, batches.batch_size, precision, world, len(objective.networks)
        )
        if steps is None:
            pace = None
            if recipe.training.minutes is not None:
                pace = seconds_per_step(encoder, objective, inputs, batches, recipe.training, precision, chunks)
                pace = world.share(pace)
                progress.say(f"pace       {pace:.3f} s a step, measured")
            steps = recipe.training.steps(batches.steps_per_epoch, tokens, pace)
        sizes = Sizes(
            examples=len(inputs),
            batches_per_epoch=batches.steps_per_epoch,
            steps=steps,
            batch_size=batches.batch_size,
            texts_per_step=(2 + inputs.hard) * batches.batch_size,
            stores=objective.stores(),
            evaluates=dev is not None,
        )
        plan = Plan(
            recipe=recipe,
            model=model,
            preset=asked.preset,
            replaced=asked.replaced,
            dev=dev,
            corpus=corpus.facts,
            prompts=encoder.prompts,
            near_duplicates=None if near is None else int(near.sum()),
            token_weights=weights,
            examples=len(inputs),
            steps=steps,
            batches_per_epoch=batches.steps_per_epoch,
            batch_size=batches.batch_size,
            tokens_per_step=tokens // batches.steps_per_epoch * recipe.training.accumulate,
            hard=inputs.hard,
            reads_hard=HardNegatives() in objective.reads,
            negatives_per_anchor=objective.negatives_per_anchor(batches.batch_size, inputs.hard),
            precision=precision,
            attention=attention,
            device=str(encoder.device),
            parameters=sum(p.numel() for p in encoder.parameters()),
            trained=sum(p.numel() for p in encoder.parameters() if p.requires_grad),
            pooling=str(encoder.pooling),
            code=encoder.own_code,
            pooling_reason=start.reason,
            chunks=chunks,
            chunks_reason=why,
            bounded=tuple(bounded_settings(recipe.training, asked.said, sizes)),
        )
        return Prepared(plan, encoder, objective, inputs, batches)

    def dry_run(
        self, out: str | Path, *, resume: bool = False, overwrite: bool = False, progress: Progress | None = None
    ) -> Plan:
        """What `run` would do, after the same checks; nothing is written but the token cache.

        Raises:
            UserError: as `run` would.
        """
        tell = progress or Silent()
        folder = RunFolder.at(out)
        folder.require(resume=resume, overwrite=overwrite, start=self._start_folder())
        with made_folder(folder.path):  # refused now where it could not be made
            pass
        record = folder.record() if resume and folder.record_file.is_file() else None
        with TemporaryDirectory() as elsewhere:
            plan = self._prepare(tell, record, Path(elsewhere)).plan
            if record is not None:
                folder.require_same(record, plan.identity())
        return plan

    def run(
        self, out: str | Path, *, resume: bool = False, overwrite: bool = False, progress: Progress | None = None
    ) -> TrainResult:
        """Trains; see `opencse.train`."""
        folder = RunFolder.at(out)
        try:
            return self._run_in_processes(folder, resume, overwrite, progress)
        except KeyboardInterrupt:
            raise InterruptedRunError(after_kill(folder)) from None

    def _run_in_processes(
        self, folder: RunFolder, resume: bool, overwrite: bool, progress: Progress | None
    ) -> TrainResult:
        device = own_device(self.device)
        with joined(device or "") as world:
            job, tell = replace(self, device=device), Silent() if progress is None or not world.first else progress
            if not world.first:
                return job._run(folder, None, resume, tell, world)
            with folder.held(tell, resume=resume, overwrite=overwrite, start=self._start_folder()) as record:
                return job._run(folder, record, resume, tell, world)

    def _run(
        self, folder: RunFolder, record: RunRecord | None, resume: bool, tell: Progress, world: Processes
    ) -> TrainResult:
        """What each process does; the first one alone touches the folder, and has the ``record`` of a begun run."""
        record = world.share(record)
        keep_freed_memory()
        prepared = self._prepare(tell, record, folder.staged_start, world)
        plan = prepared.plan
        for line in plan.lines():
            tell.say(line)
        if not world.several:
            tell_of_others(prepared.encoder.device, tell)
        world.wait()  # all have read the start, which may move now
        if record is None:
            record = world.share(folder.begin(plan.record) if world.first else None)
        else:
            identity = plan.identity()
            folder.require_same(record, identity)
            record.identity = identity
            if world.share(record.ended_early and folder.has_checkpoint()):
                folder.reopen(record, tell, write=world.first)
        return self._train(prepared, folder, record, resume, tell, world)

    def _train(
        self,
        prepared: Prepared,
        folder: RunFolder,
        record: RunRecord,
        resume: bool,
        tell: Progress,
        world: Processes,
    ) -> TrainResult:
        plan, before = prepared.plan, record.result
        if before is not None:
            tell.say(f"this run had finished before: {before.verdict}")
            return TrainResult(folder.path, before.kept, before.verdict, before.scores, plan)
        start = start_score(plan, record, folder, tell, world)
        tracked = plan.recipe.model_dump(mode="json", exclude={"presets"}) | {"model": plan.model}
        trackers = [open_tracker(self.track, folder.path, tracked)] if self.track and world.first else []
        heard = (*self.callbacks, *trackers) if world.first else ()
        trainer = prepared.trainer(folder.path, tell, dev=plan.dev, start=start, callbacks=heard)
        started = time.perf_counter()
        try:
            history = trainer.run(resume=resume)
        except InterruptedRunError as stopped:
            told = str(stopped)
            if world.first:
                tell.say("stopping   the best model so far is being written; Ctrl-C once more stops at once")
                told = after_stop(folder, told, trust_remote_code=bool(plan.code))
            world.wait()
            raise InterruptedRunError(told) from None
        record.seconds = round(time.perf_counter() - started, 1)
        with stop_requests(once=not world.several) as stop:
            if world.first:
                try:
                    finish(trainer, history, plan, folder, record, tell)
                except UserError as error:  # a full disk, for one
                    raise UserError(f"{error}; the same command with --resume continues from the checkpoint") from error
        outcome = world.share(record.result)
        if outcome is None:
            raise RuntimeError("the first process shared no outcome")
        trainer.callbacks.on_end(folder.path, outcome.verdict)
        if stop.is_set() and not world.several:
            raise KeyboardInterrupt
        return TrainResult(folder.path, outcome.kept, outcome.verdict, outcome.scores, plan)

    def _prepare(self, tell: Progress, record: RunRecord | None, staged: Path, world: Processes = ALONE) -> Prepared:
        """`prepare`; a new start is made at ``staged`` first, unless the run of ``record`` has its own."""
        if self.begin is None:
            return self.prepare(tell, steps=None if record is None else record.steps, world=world)
        if record is not None:
            self.begin.require_same(Path(self.model))
            return self.prepare(tell, steps=record.steps, world=world)
        if world.first:
            self.begin.write(self.text, staged, self.resolve().recipe.training.seed, tell)
        world.wait()
        prepared = replace(self, model=str(staged)).prepare(tell, world=world)
        return replace(prepared, plan=replace(prepared.plan, model=self.model))

    def _start_folder(self) -> Path | None:
        """The folder that training starts from, if it was there before."""
        folder = Path(self.resolve().model)
        return folder if self.begin is None and folder.is_dir() else None
