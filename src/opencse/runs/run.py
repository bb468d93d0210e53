"""A run: opened once, it describes itself, trains, and continues from its checkpoint."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from opencse.errors import InterruptedRunError, UserError
from opencse.files import made_folder
from opencse.processes import ALONE, Processes, joined
from opencse.progress import SILENT, Progress
from opencse.runs.finish import TrainResult, after_kill, after_stop, start_score, write_outcome
from opencse.runs.folder import RunFolder
from opencse.runs.plan import plan_of
from opencse.runs.record import Outcome, RunRecord
from opencse.runs.setup import RunSetup, device_of_process
from opencse.training.callbacks import Callback, Callbacks, open_tracker
from opencse.training.schedule import keep_freed_memory
from opencse.training.selection import DevScore
from opencse.training.trainer import Trainer, stop_requests

_SECONDS_TIMED = 5.0
"""How long a dry run makes steps to estimate the time."""


class Run(RunSetup):
    """A run of training; see `RunSetup` for what it is made of, and `opencse.train` for the arguments.

    Example:
        >>> import tempfile
        >>> from opencse.text.given import open_texts
        >>> text = open_texts([f"Lamp number {n} is lit." for n in range(20)])
        >>> run = Run(text=text, settings=("training.max_steps=2", "training.batch_size=4"), dev=None)
        >>> run.resolved.recipe.name, run.resolved.preset
        ('simcse', 'opencse-mini')
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run.train(f"{folder}/encoder").kept
        'last'
    """

    def describe(self, seconds_per_step: float | None = None) -> list[str]:
        """What the run, which is opened, does; with the time of its steps if their pace was measured."""
        return plan_of(self, seconds_per_step)

    def trainer(
        self, folder: Path, progress: Progress, *, start: DevScore | None = None, callbacks: tuple[Callback, ...] = ()
    ) -> Trainer:
        """Creates the trainer of the run, which is opened; see `Trainer` for the arguments."""
        return Trainer(
            encoder=self.encoder,
            sets=self.sets,
            steps=self.steps,
            settings=self.start.recipe.training,
            precision=self.precision,
            dev=self.selector,
            folder=folder,
            progress=progress,
            start=start,
            chunks=self.chunks,
            callbacks=Callbacks(callbacks),
            mixture=self.mixture,
        )

    def dry_run(
        self, out: str | Path, *, resume: bool = False, overwrite: bool = False, progress: Progress = SILENT
    ) -> list[str]:
        """Returns what `train` would do, after the same checks; nothing is written except the token cache.

        Raises:
            UserError: as `train` would.
        """
        folder = RunFolder.at(out)
        folder.require(resume=resume, overwrite=overwrite, start=self._start_folder())
        with made_folder(folder.path):  # fails now if the folder could not be created
            pass
        record = folder.record() if resume and folder.record_file.is_file() else None
        with TemporaryDirectory() as elsewhere:
            self._write_start(record, Path(elsewhere), progress, ALONE)
            self.open(progress, steps=None if record is None else record.steps)
            if record is not None:
                folder.require_same(record, self.identity())
            return self.describe(self.seconds_per_step(_SECONDS_TIMED))

    def train(
        self, out: str | Path, *, resume: bool = False, overwrite: bool = False, progress: Progress = SILENT
    ) -> TrainResult:
        """Trains in the folder ``out``, alone or as one of several processes; see `opencse.train`.

        Of several processes, the first one alone writes to the folder and reports progress.
        """
        folder = RunFolder.at(out)
        try:
            with joined(device_of_process(self.device) or "") as world:
                progress = progress if world.first else SILENT
                lock = folder.held(progress, resume=resume, overwrite=overwrite, start=self._start_folder())
                with lock if world.first else nullcontext() as record_before:
                    record = world.share(record_before)
                    keep_freed_memory()
                    self._write_start(record, folder.staged_start, progress, world)
                    self.open(progress, steps=None if record is None else record.steps, world=world)
                    return self._train(folder, record, resume)
        except KeyboardInterrupt:
            raise InterruptedRunError(after_kill(folder)) from None

    def _train(self, folder: RunFolder, record: RunRecord | None, resume: bool) -> TrainResult:
        """Prints the plan, trains, and writes the encoder to keep."""
        plan, progress, world = self.describe(), self.progress, self.world
        for line in plan:
            progress.say(line)
        if not world.several:
            _report_idle_gpus(self.encoder.device, progress)
        world.wait()  # all have read a new start, so that it can be moved
        record = self._begin_or_continue(folder, record)
        if record.result is not None:
            progress.say(f"this run had finished before: {record.result.verdict}")
            return TrainResult.of(folder, record.result, plan)
        score = start_score(self, record, folder)
        callbacks = (*self.callbacks, *self._trackers(folder)) if world.first else ()
        trainer = self.trainer(folder.path, progress, start=score, callbacks=callbacks)
        began = time.perf_counter()
        with self._best_kept_on_stop(folder):
            trainer.run(resume=resume)
        record.seconds = round(time.perf_counter() - began, 1)
        return TrainResult.of(folder, self._finish(trainer, folder, record), plan)

    def _start_folder(self) -> Path | None:
        """The folder of the start, if it is one that was there before the run."""
        folder = Path(self.start_model)
        return folder if self.begin is None and folder.is_dir() else None

    def _write_start(self, record: RunRecord | None, staging: Path, progress: Progress, world: Processes) -> None:
        """Writes a new start to ``staging`` where the run needs one that it has not written before."""
        vars(self).pop("start", None)  # it may be in another place now
        self.location = None
        if self.begin is None:
            return
        if record is not None:
            self.begin.require_same(Path(self.start_model))
            return
        if world.first:
            self.begin.write(self.training_text, staging, self.resolved.recipe.training.seed, progress)
        world.wait()
        self.location = str(staging)

    def _trackers(self, folder: RunFolder) -> list[Callback]:
        if not self.track:
            return []
        settings = self.start.recipe.model_dump(mode="json", exclude={"presets"}) | {"model": self.start_model}
        return [open_tracker(self.track, folder.path, settings)]

    def _begin_or_continue(self, folder: RunFolder, record: RunRecord | None) -> RunRecord:
        """Writes the record of a new run, or checks that the run in the folder is the same and can continue."""
        if record is None:
            record = self.world.share(folder.begin(self.record) if self.world.first else None)
            self.start = replace(self.start, model=self.start_model)  # a new one has moved to its place
            return record
        identity = self.identity()
        folder.require_same(record, identity)
        record.identity = identity
        if self.world.share(record.ended_early and folder.has_checkpoint()):
            folder.reopen(record, self.progress, write=self.world.first)
        return record

    @contextmanager
    def _best_kept_on_stop(self, folder: RunFolder) -> Iterator[None]:
        """Writes the best encoder so far if the user stops the run within the block.

        Raises:
            InterruptedRunError: that names what was written, and how to continue.
        """
        try:
            yield
        except InterruptedRunError as stopped:
            message = str(stopped)
            if self.world.first:
                self.progress.say("stopping   the best model so far is being written; Ctrl-C once more stops at once")
                message = after_stop(folder, message, trust_remote_code=self.trust_remote_code)
            self.world.wait()
            raise InterruptedRunError(message) from None

    def _finish(self, trainer: Trainer, folder: RunFolder, record: RunRecord) -> Outcome:
        """Writes the encoder to keep; Ctrl-C meanwhile, or during the last step, stops only after that."""
        several = self.world.several
        with stop_requests(once=not several) as stop:
            if self.world.first:
                try:
                    write_outcome(trainer, self, folder, record)
                except UserError as error:  # a full disk, for example
                    saved = folder.has_checkpoint()
                    how = "continues from the checkpoint" if saved else "begins again, as no checkpoint was written"
                    raise UserError(f"{error}; the same command with --resume {how}") from error
        outcome = self.world.share(record.result)
        assert outcome is not None
        trainer.callbacks.call("on_end", folder.path, outcome.verdict)
        if (stop.is_set() or trainer.stop_at_end) and not several:
            raise KeyboardInterrupt
        return outcome


def _report_idle_gpus(device: torch.device, progress: Progress) -> None:
    """Reports how to use the GPUs that a run of one process leaves idle."""
    count = torch.cuda.device_count() if device.type == "cuda" else 1
    if count > 1:
        progress.say(
            f"GPUs       1 of {count} is used; to use all of them: torchrun --nproc-per-node {count} "
            "--no-python opencse train ... (docs/encoding.md)"
        )
