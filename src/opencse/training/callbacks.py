"""What a caller may do while a run goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

Record = Mapping[str, float | int | str]
"""A line of metrics.jsonl; it has its ``step``."""


class Callback:
    """Hears of a run; derive from it and give what you need. An exception in it ends the run.

    Of a run in several processes the first one's callbacks hear, and that alone.
    """

    def on_begin(self, step: int) -> None:
        """Training begins, after ``step`` steps that were made before (0, but where a run is resumed)."""

    def on_step(self, step: int, record: Record) -> None:
        """A line of the log (every ``training.log_every`` steps): loss, its parts, learning rate."""

    def on_evaluate(self, step: int, record: Record) -> None:
        """The encoder was evaluated: ``dev`` and its parts; step 0 is the start."""

    def on_checkpoint(self, step: int, folder: Path) -> None:
        """A checkpoint was written, from which the run can be resumed."""

    def on_end(self, folder: Path, verdict: str) -> None:
        """The run has finished: the kept encoder is in ``folder``."""


class Callbacks(Callback):
    """Several as one."""

    def __init__(self, those: Sequence[Callback] = ()) -> None:
        self.those = tuple(those)

    def heard(self, record: Record) -> None:
        """A line of the log, of either kind."""
        step = int(record["step"])
        if "dev" in record:
            self.on_evaluate(step, record)
        else:
            self.on_step(step, record)

    def on_begin(self, step: int) -> None:
        """Tells each of them."""
        for one in self.those:
            one.on_begin(step)

    def on_step(self, step: int, record: Record) -> None:
        """Tells each of them."""
        for one in self.those:
            one.on_step(step, record)

    def on_evaluate(self, step: int, record: Record) -> None:
        """Tells each of them."""
        for one in self.those:
            one.on_evaluate(step, record)

    def on_checkpoint(self, step: int, folder: Path) -> None:
        """Tells each of them."""
        for one in self.those:
            one.on_checkpoint(step, folder)

    def on_end(self, folder: Path, verdict: str) -> None:
        """Tells each of them."""
        for one in self.those:
            one.on_end(folder, verdict)
