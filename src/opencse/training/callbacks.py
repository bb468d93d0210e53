"""Callbacks: your own code that is called during a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

Record = Mapping[str, float | int | str]
"""A line of metrics.jsonl; it has a ``step``."""


class Callback:
    """Is notified of the events of a run: derive a class and override the methods you need.

    An exception in a method ends the run. Of a run in several processes, only the first calls its callbacks.

    Example:
        >>> class Losses(Callback):
        ...     def on_step(self, step, record):
        ...         print(f"step {step}: loss {record['loss']:.2f}")
        >>> Callbacks([Losses()]).notify({"step": 10, "loss": 0.5})  # training calls this every 10 steps
        step 10: loss 0.50
    """

    def on_begin(self, step: int) -> None:
        """Called when training begins, after ``step`` earlier steps (0, unless a run is resumed)."""

    def on_step(self, step: int, record: Record) -> None:
        """Called with each line of the log (every ``training.log_every`` steps): loss, its parts, learning rate."""

    def on_evaluate(self, step: int, record: Record) -> None:
        """Called after each evaluation of the encoder, with ``dev`` and its parts; step 0 is the start.

        Averages that are evaluated after the last step (``training.averages_at_end``) have ``average_of_step`` too.
        """

    def on_checkpoint(self, step: int, folder: Path) -> None:
        """Called after a checkpoint was written, from which the run can be resumed."""

    def on_end(self, folder: Path, verdict: str) -> None:
        """Called when the run has finished; the kept encoder is in ``folder``."""


class Callbacks(Callback):
    """Calls several callbacks, one after the other."""

    def __init__(self, callbacks: Sequence[Callback] = ()) -> None:
        self.callbacks = tuple(callbacks)

    def notify(self, record: Record) -> None:
        """Calls `on_evaluate` or `on_step` for a line of the log."""
        step = int(record["step"])
        if "dev" in record:
            self.on_evaluate(step, record)
        else:
            self.on_step(step, record)

    def on_begin(self, step: int) -> None:
        """Calls each callback."""
        for callback in self.callbacks:
            callback.on_begin(step)

    def on_step(self, step: int, record: Record) -> None:
        """Calls each callback."""
        for callback in self.callbacks:
            callback.on_step(step, record)

    def on_evaluate(self, step: int, record: Record) -> None:
        """Calls each callback."""
        for callback in self.callbacks:
            callback.on_evaluate(step, record)

    def on_checkpoint(self, step: int, folder: Path) -> None:
        """Calls each callback."""
        for callback in self.callbacks:
            callback.on_checkpoint(step, folder)

    def on_end(self, folder: Path, verdict: str) -> None:
        """Calls each callback."""
        for callback in self.callbacks:
            callback.on_end(folder, verdict)
