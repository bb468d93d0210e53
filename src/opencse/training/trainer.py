"""The training loop: steps, evaluation, checkpoints, and stopping."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType

import torch
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import InterruptedRunError, UserError, explaining
from opencse.kernels.precision import Precision
from opencse.numerals import number_of
from opencse.objective.objective import Objective, StepLosses
from opencse.objective.vectors.chunks import WHOLE, Chunks
from opencse.processes import Processes
from opencse.progress import Progress
from opencse.training.callbacks import METRICS, Callbacks, MetricsLog
from opencse.training.checkpoint import (
    CHECKPOINT,
    Checkpoint,
    load_checkpoint,
    optimizer_tensors,
    prefixed,
    random_states,
    restore_optimizer,
    restore_random_states,
    save_checkpoint,
)
from opencse.training.evaluations import Evaluations, probes_of, require_sound
from opencse.training.optimizer import build_optimizer, learning_rate, set_rate, trained_weights
from opencse.training.schedule import DataSet, MixingPlan
from opencse.training.selection import DevScore, History, Selector
from opencse.training.settings import TrainingSettings
from opencse.training.step import RecordedUpdate, Step, Update, WorstCase, step_inputs, why_not_recorded

_TWICE = 1.0
"""Seconds within which two signals are one stop: ``timeout`` and launchers send theirs to the process and its group."""


@contextmanager
def stop_requests(*, once: bool) -> Iterator[threading.Event]:
    """Yields an event that Ctrl-C and SIGTERM set, so that the block can end cleanly; then restores the handlers.

    Args:
        once: whether a second signal, at least a second later, stops immediately. In several processes it must not:
            their launcher sends the signal to all, and each may have received it already.
    """
    stop = threading.Event()
    # Python lets the main thread alone set handlers of signals.
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    first = 0.0

    def request(number: int, frame: FrameType | None) -> None:
        nonlocal first
        del number, frame
        first = first or time.monotonic()
        if once and time.monotonic() - first >= _TWICE:
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_AT_LEAST_EVERY = 300.0
"""Seconds after which a checkpoint is written, however slow the steps are."""
_FIX = "lower training.learning_rate, or train in float32 (training.precision=float32)"


@dataclass
class Trainer:
    """Makes the steps of a run, has the encoder evaluated, and writes checkpoints.

    Each step: inputs -> one forward pass -> representations -> objective -> backward pass -> the parts'
    ``after_backward`` -> clip -> AdamW. Everything random is either a function of the step or in the checkpoint, so a
    resumed run makes exactly the same steps.

    Attributes:
        encoder: the encoder to train, on its device.
        sets: the data sets, each with an objective of its own, on the same device.
        steps: of the complete run.
        settings: of training.
        precision: arithmetic of the forward pass.
        dev: scores encoders to select the one to keep; in the first process it has evaluated the start. None keeps the
            last encoder.
        folder: of the run; ``checkpoint`` and ``metrics.jsonl`` are written in it.
        progress: what the user sees.
        last_step: the step that training ended at; below ``steps`` where patience ended it.
        start: dev score of the encoder before the first step, in the first process; None without dev.
        chunks: how a step's rows are encoded, and by which processes; the first process writes and evaluates.
        callbacks: notified of the run's events.
        mixture: which data set each step works on; None with one alone.
    """

    encoder: SentenceEncoder
    sets: tuple[DataSet, ...]
    steps: int
    settings: TrainingSettings
    precision: Precision
    dev: Selector | None
    folder: Path
    progress: Progress
    start: DevScore | None = None
    chunks: Chunks = WHOLE
    callbacks: Callbacks = field(default_factory=Callbacks)
    mixture: MixingPlan | None = None

    def __post_init__(self) -> None:
        self.metrics = MetricsLog(self.folder / METRICS, self.callbacks.notify)
        self.evaluations = Evaluations(
            self.encoder, self.objective, self.settings, self.dev, self.world, self.metrics, self.progress
        )
        self.last_step = self.steps
        self.saved = time.monotonic()  # of the last checkpoint
        self.stop_at_end = False  # a stop was requested when all steps were made
        self.probes = probes_of(self.sets[0].inputs.corpus)
        parameters = [p for one in self.sets for p in one.objective.parameters()]
        self.optimizer = build_optimizer([*self.encoder.parameters(), *parameters], self.settings)
        worst_case = self.settings.worst_case
        moved = None if worst_case is None else WorstCase(worst_case, trained_weights(self.optimizer))
        self.updates = [self._update(Step(self.encoder, one.objective, self.precision, moved)) for one in self.sets]

    @property
    def objective(self) -> Objective:
        """The objective of the first data set."""
        return self.sets[0].objective

    @property
    def world(self) -> Processes:
        """The processes that make the steps together."""
        return self.chunks.world

    @property
    def checkpoint_folder(self) -> Path:
        """The folder of the run's checkpoint, until it has finished."""
        return self.folder / CHECKPOINT

    def run(self, *, resume: bool) -> History:
        """Makes all steps, from the checkpoint on if ``resume``; ``evaluations`` has the best encoder's weights then.

        Raises:
            InterruptedRunError: on Ctrl-C or SIGTERM, after a checkpoint.
        """
        step = self._restore() if resume else 0
        if self.world.first:
            self.callbacks.call("on_begin", step)
        if step == 0:
            self._begin()
        self.world.wait()
        self.progress.start("training", self.steps, step)
        (settled,) = self.world.any_of([self.evaluations.settled])
        with stop_requests(once=not self.world.several) as stop:
            try:
                while step < self.steps and not settled:
                    outcome = self._make_step(step)
                    step += 1
                    self._finish_step(step, outcome)
                    stopping, settled = self.world.any_of([stop.is_set(), self.evaluations.settled])
                    if stopping and step < self.steps and not settled:
                        self._save(step)
                        self.world.wait()
                        raise InterruptedRunError(
                            f"stopped after step {step:,} of {self.steps:,}; continue with --resume"
                        )
            finally:
                self.progress.finish()
            self.last_step = step
            self.evaluations.finish(step)
            self.stop_at_end = stop.is_set()
        if step < self.steps:
            without_gain = number_of(self.evaluations.history.without_gain, "evaluation")
            self.progress.say(f"stopped    at step {step:,} of {self.steps:,}: no gain in {without_gain}")
        return self.evaluations.history

    def _begin(self) -> None:
        torch.manual_seed(self.settings.seed_of_dropout)
        if self.world.first:
            self.metrics.clear()
        if self.start is not None:
            self.evaluations.add_start(self.start)

    def _update(self, step: Step) -> Update | RecordedUpdate:
        """Makes the steps of a data set, recorded where that is possible and the settings allow it."""
        update = Update(step, self.optimizer, self.settings.max_grad_norm)
        on_gpu = self.encoder.device.type == "cuda" and self.encoder.computation != "transformers"
        if not (self.settings.graphs and on_gpu) or why_not_recorded(step.objective, self.settings, self.chunks):
            return update
        return RecordedUpdate(update, self.progress.say)

    def _make_step(self, step: int) -> StepLosses:
        number, own_step = self._set_of(step)
        data_set = self.sets[number]
        self.encoder.train()
        data_set.objective.train()
        set_rate(self.optimizer, learning_rate(step, self.steps, self.settings))
        inputs = step_inputs(
            data_set.inputs, data_set.batches, own_step, self.settings.accumulate, self.encoder, self.chunks
        )
        update = self.updates[number]
        updated = update(inputs, diagnose=self._logged(step + 1))
        update.clear()
        return updated.losses

    def _logged(self, step: int) -> bool:
        """Whether the log has a line for ``step`` (from 1): every few steps of each data set."""
        own_step = self._set_of(step - 1)[1] + 1
        return own_step % self.settings.log_every == 0 or own_step == 1 or step == self.steps

    def _set_of(self, step: int) -> tuple[int, int]:
        """The number of the data set that ``step`` (from 0) works on, and which of its own steps that is."""
        return (0, step) if self.mixture is None else self.mixture.at(step)

    def _finish_step(self, step: int, outcome: StepLosses) -> None:
        last = step == self.steps
        if self._logged(step):
            self._log(step, outcome)
        evaluated = self.evaluations.is_due(step)
        # After the first step too: a rate that is far too high shows at once.
        if evaluated or last or step == 1:
            when = f"step {step:,}: training ruined the encoder"
            require_sound(self.encoder, self.probes, when, _FIX, allow_equal=self.dev is not None)
        if evaluated or last:
            self.evaluations.evaluate(step)
        slow = time.monotonic() - self.saved >= _AT_LEAST_EVERY
        if (slow or step % self.settings.checkpoint_every == 0) and not last:
            self._save(step)
        self.progress.advance(step)

    def _log(self, step: int, outcome: StepLosses) -> None:
        losses = {f"loss_{name}": float(loss.detach()) for name, loss in outcome.losses.items()}
        total = sum(losses.values())
        if total != total:
            raise UserError(f"the loss is not a number at step {step:,}; {_FIX}")
        report = {name: float(value) for name, value in outcome.report.items()}
        rate = learning_rate(step - 1, self.steps, self.settings)
        number = self._set_of(step - 1)[0]
        several = len(self.sets) > 1
        which = {"data_set": number + 1} if several else {}
        if self.world.first:
            self.metrics.write({"step": step, **which, "loss": total, **losses, **report, "learning_rate": rate})
        self.progress.advance(step, f"loss {total:.4f}" + f" ({self.sets[number].name})" * several)

    def _save(self, step: int) -> None:
        if not self.world.first:
            return
        tensors = {
            **prefixed("encoder", self.encoder.state_dict()),
            **self._states_of_objectives(),
            **prefixed("optimizer", optimizer_tensors(self.optimizer)),
            **prefixed("best", self.evaluations.best),
            **prefixed("random", random_states(self.encoder.device)),
        }
        chunks = {"rows": self.chunks.rows, "keep": self.chunks.keep, "processes": self.world.count}
        values = {"step": step, "chunks": chunks, **self.evaluations.plain()}
        save_checkpoint(self.checkpoint_folder, Checkpoint(tensors, values))
        self.saved = time.monotonic()
        self.callbacks.call("on_checkpoint", step, self.checkpoint_folder)

    def _states_of_objectives(self) -> dict[str, Tensor]:
        """The states of the objectives, by the names of the checkpoint."""
        states = {_owner(number): one.objective.state_dict() for number, one in enumerate(self.sets)}
        return {name: t for owner, state in states.items() for name, t in prefixed(owner, state).items()}

    def _restore(self) -> int:
        checkpoint = load_checkpoint(self.checkpoint_folder, self.progress.say)
        if checkpoint is None:
            return 0
        with explaining(
            f"{self.checkpoint_folder}: the checkpoint does not fit this run",
            LookupError,
            ValueError,
            TypeError,
            AttributeError,
            RuntimeError,
            fix="put back the run's own, or remove it, and --resume begins again at step 0",
        ):
            step = self._restore_from(checkpoint)
        if self.world.first:
            self.metrics.rewind(step)
        self.progress.say(f"resumed at step {step:,} of {self.steps:,}")
        return step

    def _restore_from(self, checkpoint: Checkpoint) -> int:
        """Restores everything from ``checkpoint``; returns the step after which it was saved."""
        self._take_chunks(checkpoint.values["chunks"])
        self.encoder.load_state_dict(checkpoint.of("encoder"))
        for number, one in enumerate(self.sets):
            one.objective.load_state_dict(checkpoint.of(_owner(number)))
        restore_optimizer(self.optimizer, checkpoint.of("optimizer"))
        self.evaluations.restore(checkpoint.of("best"), checkpoint.values)
        states = checkpoint.of("random")
        restore_random_states(states, self.encoder.device)
        before, now = next((name for name in states if name != "cpu"), "cpu"), self.encoder.device.type
        if before != now and self.encoder.has_dropout:
            self.progress.say(f"begun on {before}, continues on {now}: dropout draws other masks than on {before}")
        step = int(checkpoint.values["step"])
        if not 0 < step <= self.steps:
            raise ValueError(f"step {step} of {self.steps}")
        return step

    def _take_chunks(self, before: Mapping[str, int | None]) -> None:
        """Takes over the chunks of the earlier run if they were chosen by memory; refuses other dropout masks.

        Raises:
            UserError: if the masks depend on the number of processes, and there were more or fewer.
        """
        if self.settings.chunk == "auto":
            keep = before.get("keep") or self.chunks.keep
            self.chunks = replace(self.chunks, rows=before.get("rows"), keep=keep)
        processes = before.get("processes") or 1
        if self.chunks.rows is None and processes != self.world.count and self.encoder.has_dropout:
            raise UserError(
                f"{self.checkpoint_folder}: was written by {processes} process{'es' * (processes > 1)}, and without "
                f"training.chunk dropout masks depend on their number, now {self.world.count}; start {processes}, or "
                "begin a run with training.chunk, which continues in any number of processes"
            )


def _owner(number: int) -> str:
    """The owner of the state of a data set's objective, in the checkpoint."""
    return f"data_set_{number + 1}" if number else "objective"
