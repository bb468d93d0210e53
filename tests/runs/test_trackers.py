"""Callbacks and trackers hear every line of metrics.jsonl."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import opencse
from helpers import Broken, Run
from opencse.errors import InterruptedRunError, UserError
from opencse.runs.trackers import open_tracker
from opencse.training.callbacks import Callback, Record

QUICK = [
    "training.max_steps=6",
    "training.batch_size=8",
    "training.log_every=2",
    "training.checkpoint_every=4",
    "training.evaluate_every=3",
]


class Notes(Callback):
    def __init__(self) -> None:
        self.begun: list[int] = []
        self.lines: list[dict[str, Any]] = []
        self.others: list[tuple[Any, ...]] = []

    def on_begin(self, step: int) -> None:
        self.begun.append(step)

    def on_step(self, step: int, record: Record) -> None:
        assert "loss" in record
        self.lines.append(dict(record))

    def on_evaluate(self, step: int, record: Record) -> None:
        assert "dev" in record
        self.lines.append(dict(record))

    def on_checkpoint(self, step: int, folder: Path) -> None:
        assert (folder / "state.json").is_file() or any(folder.rglob("state.json"))
        self.others.append((step, "checkpoint"))

    def on_end(self, folder: Path, verdict: str) -> None:
        assert (folder / "config.json").is_file()
        self.others.append(("end", verdict))


def log_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_what_was_written_before_a_run_began_again_at_step_0_is_hidden(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for losses in ([3.0, 2.0, 1.0], [5.0]):
        tracker = open_tracker("tensorboard", tmp_path, {})
        tracker.on_begin(0)
        for step, loss in enumerate(losses):
            tracker.on_step(step, {"step": step, "loss": loss})
        tracker.on_checkpoint(0, tmp_path)
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("train/loss")] == [(0, 5.0)]


@pytest.mark.slow
def test_callbacks_and_tensorboard(tiny_folder: Path, sentences: list[str], tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    notes, out = Notes(), tmp_path / "run"
    arguments: dict[str, Any] = {"model": tiny_folder, "settings": QUICK, "dev": "sample", "track": "tensorboard"}
    with pytest.raises(InterruptedRunError):
        opencse.train(sentences[:80], out, **arguments, callbacks=[notes], progress=Broken(5))
    assert notes.begun == [0]
    assert notes.others == [(4, "checkpoint")]
    result = opencse.train(sentences[:80], out, **arguments, callbacks=[notes], resume=True)
    assert notes.begun == [0, 4]
    assert notes.others[1:] == [("end", result.verdict)]
    lines = log_of(out)
    assert [line["step"] for line in lines] == [0, 1, 2, 3, 4, 6, 6]
    assert notes.lines == lines
    events = EventAccumulator(str(out / "tensorboard"))
    events.Reload()
    losses = {event.step: event.value for event in events.Scalars("train/loss")}
    assert losses == pytest.approx({line["step"]: line["loss"] for line in lines if "loss" in line}, rel=1e-6)
    dev = {event.step: event.value for event in events.Scalars("dev/dev")}
    assert dev == pytest.approx({line["step"]: line["dev"] for line in lines if "dev" in line}, rel=1e-6)


@pytest.mark.slow
def test_wandb_offline(
    opencse: Run,
    tiny_folder: Path,
    sentences: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    text = tmp_path / "a.txt"
    text.write_text("\n".join(sentences[:40]) + "\n")
    out = tmp_path / "run"
    settings = [part for setting in QUICK for part in ("--set", setting)]
    code, _, err = opencse(
        "train",
        text,
        "--out",
        out,
        "--model",
        tiny_folder,
        "--dev",
        "none",
        "--track",
        "wandb",
        "--no-report",
        *settings,
    )
    assert code == 0, err
    (file,) = (out / "wandb").glob("offline-run-*/*.wandb")
    content = file.read_bytes()
    assert (out / "wandb.id").read_text().encode() in content
    for name in (b"train/loss", b"train/learning_rate", b"objective"):
        assert name in content


def test_what_is_no_callback_or_tracker(tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    with pytest.raises(TypeError, match="callbacks is a list"):
        opencse.train(["a", "b"], tmp_path / "x", callbacks=[print])  # type: ignore[list-item]
    with pytest.raises(UserError, match="unknown tracker 'tensorbord'"):
        opencse.train(["a", "b"], tmp_path / "x", track="tensorbord")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None)
    with pytest.raises(UserError, match="pip install wandb"):
        opencse.train(["a", "b"], tmp_path / "x", track="wandb")
    assert not (tmp_path / "x").exists()
