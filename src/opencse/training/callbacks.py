"""What a run reports: callbacks (your own code that is called during a run), its log metrics.jsonl, and trackers."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from opencse import files
from opencse.errors import UserError, explaining, require_known

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


class Callbacks:
    """Calls several callbacks, one after the other."""

    def __init__(self, callbacks: Sequence[Callback] = ()) -> None:
        self.callbacks = tuple(callbacks)

    def notify(self, record: Record) -> None:
        """Calls `on_evaluate` or `on_step` for a line of the log."""
        self.call("on_evaluate" if "dev" in record else "on_step", int(record["step"]), record)

    def call(self, event: str, *arguments: object) -> None:
        """Calls the method ``event`` of each callback."""
        for callback in self.callbacks:
            getattr(callback, event)(*arguments)


METRICS = "metrics.jsonl"
AVERAGE_OF = "average_of_step"
"""Key of the records of averages that were evaluated after the last step: the step whose weights were averaged."""


class MetricsLog:
    """Appends records to a JSON-lines file; each record has a ``step``. ``notify`` is called with it too."""

    def __init__(self, path: Path, notify: Callable[[Record], None] | None = None) -> None:
        self.path = path
        self.notify = notify

    def write(self, record: Record) -> None:
        """Appends one record."""
        with self._written(), self.path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record) + "\n")
        if self.notify is not None:
            self.notify(record)

    def clear(self) -> None:
        """Empties the log."""
        self._replace(b"")

    def rewind(self, step: int) -> None:
        """Drops the records after ``step``, those of averages after the last step, and an incomplete last line.

        Raises:
            UserError: as `read`.
        """
        lines = [line for line, record in self._lines() if record["step"] <= step and AVERAGE_OF not in record]
        self._replace(b"".join(line + b"\n" for line in lines))

    def read(self) -> list[dict[str, float]]:
        """Reads all records; an incomplete last line, of a run that was killed, is left out.

        Raises:
            UserError: for any other line that is no record, with its number.
        """
        return [record for _, record in self._lines()]

    def _lines(self) -> list[tuple[bytes, dict[str, float]]]:
        content = self.path.read_bytes() if self.path.is_file() else b""
        *lines, rest = content.split(b"\n")
        records = [(line, self._record(line, number)) for number, line in enumerate(lines, start=1)]
        with contextlib.suppress(ValueError):  # incomplete
            records.append((rest, _parsed(rest)))
        return records

    def _record(self, line: bytes, number: int) -> dict[str, float]:
        with explaining(
            f"{self.path}, line {number}: is no record of a step",
            ValueError,
            fix="delete the line, or put back a copy of the file (the log alone: the encoder and its checkpoint do not "
            "depend on it)",
        ):
            return _parsed(line)

    def _replace(self, content: bytes) -> None:
        with self._written(), files.writing(self.path) as unfinished:
            unfinished.write_bytes(content)

    def _written(self) -> AbstractContextManager[None]:
        return explaining(f"{self.path}: cannot be written", OSError, fix="make room and continue with --resume")


def _parsed(line: bytes) -> dict[str, float]:
    record = json.loads(line.decode("utf-8"))
    if not isinstance(record, dict) or not isinstance(record.get("step"), int):
        raise ValueError("an object with a step was expected")
    return record


TRACKERS = {"tensorboard": "tensorboard", "wandb": "wandb"}
"""The package of each tracker."""
TRACKED = ("tensorboard", "wandb", "wandb.id")
"""Names of what trackers write to a run's folder."""


def require_tracker(name: str) -> None:
    """Refuses an unknown tracker, or one whose package is not installed.

    Raises:
        UserError: naming the package to install.
    """
    require_known(name, list(TRACKERS), "tracker")
    if importlib.util.find_spec(TRACKERS[name]) is None:
        raise UserError(f"--track {name}: {TRACKERS[name]} is not installed; pip install {TRACKERS[name]}")


def open_tracker(name: str, folder: Path, settings: Mapping[str, Any]) -> Callback:
    """Opens the tracker called ``name`` for the run in ``folder``; it shows ``settings``."""
    require_tracker(name)
    return TensorBoard(folder) if name == "tensorboard" else WandB(folder, settings)


class Tracker(Callback):
    """Sends every number of the log to a tracker, under a group's name."""

    def on_step(self, step: int, record: Record) -> None:
        """Writes every number of the line."""
        self.write("train", step, record)

    def on_evaluate(self, step: int, record: Record) -> None:
        """Writes every number of the line; averages after the last step have a group of their own."""
        self.write("average" if AVERAGE_OF in record else "dev", step, record)

    def write(self, group: str, step: int, record: Record) -> None:
        """Writes every number of a line."""
        names = (key for key, value in record.items() if key != "step" and not isinstance(value, str))
        self.log({f"{group}/{name}": float(record[name]) for name in names}, step)

    def log(self, values: dict[str, float], step: int) -> None:
        """Sends values by name."""


class TensorBoard(Tracker):
    """Writes ``FOLDER/tensorboard``; look at it with ``tensorboard --logdir FOLDER``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / TRACKED[0]
        self._writer: Any = None

    def on_begin(self, step: int) -> None:
        """Opens the log; lines after the checkpoint of a resumed run are hidden."""
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(self._folder), purge_step=step + 1 if step else 0)

    def on_checkpoint(self, step: int, folder: Path) -> None:
        """Writes what a kill would lose."""
        self._writer.flush()

    def on_end(self, folder: Path, verdict: str) -> None:
        """Closes the log."""
        self._writer.add_text("verdict", verdict)
        self._writer.close()

    def log(self, values: dict[str, float], step: int) -> None:
        """Adds each value."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)


class WandB(Tracker):
    """Logs to Weights & Biases; ``WANDB_MODE=offline`` keeps everything in ``FOLDER/wandb``.

    The project is ``WANDB_PROJECT`` or ``opencse``. A resumed run continues under the same name.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self._folder, self._settings = folder, settings
        self._run: Any = None

    def on_begin(self, step: int) -> None:
        """Opens the run."""
        import wandb

        known = self._folder / TRACKED[2]
        if not (step and known.is_file()):
            files.write_text(known, secrets.token_hex(4))
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "opencse"),
            name=self._folder.name,
            id=known.read_text(encoding="utf-8").strip(),
            dir=str(self._folder),
            config=dict(self._settings),
            resume="allow",
            settings=wandb.Settings(silent=True),
        )

    def on_end(self, folder: Path, verdict: str) -> None:
        """Ends the run."""
        self._run.summary["verdict"] = verdict
        self._run.finish()

    def log(self, values: dict[str, float], step: int) -> None:
        """Logs the values together."""
        self._run.log(values | {"step": step})
