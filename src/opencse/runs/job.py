"""Runs a training job: resolves the recipe, prepares, trains, and writes the encoder to keep."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from opencse.adapting.dev_choice import AUTO, DevChoice, load_selector, without_trained
from opencse.adapting.selection import Selector
from opencse.encoder.devices import default_device, usable_device
from opencse.errors import InterruptedRunError, UserError
from opencse.model_folder.locate import BUILTIN
from opencse.objective.objective import Objective
from opencse.outputs import made_folder
from opencse.processes import ALONE, Processes, gpu_of, joined, started
from opencse.progress import Progress, Silent
from opencse.recipes.recipe import Recipe, Resolved, model_named
from opencse.runs.best_so_far import after_kill, after_stop
from opencse.runs.data_sets import FurtherSet, GivenSet, fingerprint_of_texts, further_sets, text_for, with_given_sets
from opencse.runs.finish import TrainResult, start_score, write_outcome
from opencse.runs.folder import RunFolder
from opencse.runs.new_start import NewStart
from opencse.runs.opened import OpenedRun
from opencse.runs.plan import Plan
from opencse.runs.prepare import Prepared, prepare, require_dev
from opencse.runs.record import Outcome, RunRecord
from opencse.runs.resolving import resolve_for_run
from opencse.runs.start import Start, settle
from opencse.runs.trackers import open_tracker
from opencse.text.given import TextSource
from opencse.training.callbacks import Callback
from opencse.training.memory import keep_freed_memory
from opencse.training.stopping import stop_requests
from opencse.training.trainer import Trainer

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
        >>> from opencse.runs.job import TrainJob
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
            "--no-python opencse train ... (docs/scale.md)"
        )
