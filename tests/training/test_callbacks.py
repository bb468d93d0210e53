"""Callbacks: which method is called for which line of the log, and in which order."""

from __future__ import annotations

from pathlib import Path

from opencse.training.callbacks import Callback, Callbacks, Record


class Notes(Callback):
    def __init__(self, name: str, notes: list[tuple[object, ...]]) -> None:
        self.name = name
        self.notes = notes

    def on_step(self, step: int, record: Record) -> None:
        self.notes.append((self.name, "step", step, record["loss"]))

    def on_evaluate(self, step: int, record: Record) -> None:
        self.notes.append((self.name, "evaluate", step, record["dev"]))

    def on_end(self, folder: Path, verdict: str) -> None:
        self.notes.append((self.name, "end", folder, verdict))


def test_each_is_called_in_order_with_the_event_of_the_line() -> None:
    notes: list[tuple[object, ...]] = []
    both = Callbacks([Notes("a", notes), Notes("b", notes)])
    both.notify({"step": 10, "loss": 0.5})
    both.notify({"step": 10, "dev": 71.2})
    both.on_end(Path("out"), "kept step 10")
    assert notes == [
        ("a", "step", 10, 0.5),
        ("b", "step", 10, 0.5),
        ("a", "evaluate", 10, 71.2),
        ("b", "evaluate", 10, 71.2),
        ("a", "end", Path("out"), "kept step 10"),
        ("b", "end", Path("out"), "kept step 10"),
    ]


def test_a_callback_without_methods_is_called_and_does_nothing() -> None:
    callbacks = Callbacks([Callback()])
    callbacks.on_begin(0)
    callbacks.notify({"step": 1, "loss": 1.0})
    callbacks.on_checkpoint(1, Path("checkpoint"))
    callbacks.on_end(Path("out"), "")
