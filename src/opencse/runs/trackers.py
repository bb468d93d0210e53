"""Sends every number of metrics.jsonl to TensorBoard or Weights & Biases too (``--track``)."""

from __future__ import annotations

import importlib.util
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from opencse import io
from opencse.errors import UserError, require_known
from opencse.training.callbacks import Callback, Record
from opencse.training.metrics import AVERAGE_OF

TRACKERS = {"tensorboard": "tensorboard", "wandb": "wandb"}
"""The package of each tracker."""
WRITTEN = ("tensorboard", "wandb", "wandb.id")
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


def _numbers(record: Record) -> dict[str, float]:
    return {key: float(value) for key, value in record.items() if key != "step" and not isinstance(value, str)}


def _group(record: Record) -> str:
    """The name before those of an evaluation's numbers; averages after the last step have one of their own."""
    return "average" if AVERAGE_OF in record else "dev"


class TensorBoard(Callback):
    """Writes ``FOLDER/tensorboard``; look at it with ``tensorboard --logdir FOLDER``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / WRITTEN[0]
        self._writer: Any = None

    def on_begin(self, step: int) -> None:
        """Opens the log; lines after the checkpoint of a resumed run are hidden."""
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(self._folder), purge_step=step + 1 if step else 0)

    def on_step(self, step: int, record: Record) -> None:
        """Writes every number of the line."""
        self._write("train", step, record)

    def on_evaluate(self, step: int, record: Record) -> None:
        """Writes every number of the line."""
        self._write(_group(record), step, record)

    def on_checkpoint(self, step: int, folder: Path) -> None:
        """Writes what a kill would lose."""
        self._writer.flush()

    def on_end(self, folder: Path, verdict: str) -> None:
        """Closes the log."""
        self._writer.add_text("verdict", verdict)
        self._writer.close()

    def _write(self, group: str, step: int, record: Record) -> None:
        for name, value in _numbers(record).items():
            self._writer.add_scalar(f"{group}/{name}", value, step)


class WandB(Callback):
    """Logs to Weights & Biases; ``WANDB_MODE=offline`` keeps everything in ``FOLDER/wandb``.

    The project is ``WANDB_PROJECT`` or ``opencse``. A resumed run continues under the same name.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self._folder, self._settings = folder, settings
        self._run: Any = None

    def on_begin(self, step: int) -> None:
        """Opens the run."""
        import wandb

        known = self._folder / WRITTEN[2]
        if not (step and known.is_file()):
            io.write_text(known, secrets.token_hex(4))
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "opencse"),
            name=self._folder.name,
            id=known.read_text(encoding="utf-8").strip(),
            dir=str(self._folder),
            config=dict(self._settings),
            resume="allow",
            settings=wandb.Settings(silent=True),
        )

    def on_step(self, step: int, record: Record) -> None:
        """Writes every number of the line."""
        self._run.log({f"train/{name}": value for name, value in _numbers(record).items()} | {"step": step})

    def on_evaluate(self, step: int, record: Record) -> None:
        """Writes every number of the line."""
        group = _group(record)
        self._run.log({f"{group}/{name}": value for name, value in _numbers(record).items()} | {"step": step})

    def on_end(self, folder: Path, verdict: str) -> None:
        """Ends the run."""
        self._run.summary["verdict"] = verdict
        self._run.finish()
