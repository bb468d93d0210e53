"""Where a run tells what it does: the terminal, or nowhere."""

from __future__ import annotations

from typing import Protocol


class Reporter(Protocol):
    """What the trainer says while it works."""

    def say(self, line: str) -> None:
        """A line worth reading: a decision with its reason, a result."""

    def start(self, what: str, total: int, done: int = 0) -> None:
        """Long work begins: ``total`` steps, ``done`` of them made before."""

    def advance(self, done: int, note: str = "") -> None:
        """``done`` steps of the current work are made."""

    def finish(self) -> None:
        """The current work is over."""


class Silent:
    """A reporter that says nothing (the library's default)."""

    def say(self, line: str) -> None:
        """Nothing."""

    def start(self, what: str, total: int, done: int = 0) -> None:
        """Nothing."""

    def advance(self, done: int, note: str = "") -> None:
        """Nothing."""

    def finish(self) -> None:
        """Nothing."""


class Counted:
    """Progress of a counted job as ``(done, total)`` calls, for a reporter; each new count is a bar of its own.

    A job that never reports (because it was served from a cache) shows no bar.
    """

    def __init__(self, reporter: Reporter, what: str) -> None:
        self._reporter, self._what, self._begun = reporter, what, False

    def __call__(self, done: int, total: int) -> None:
        """``done`` of ``total`` are made."""
        if not self._begun:
            self._reporter.start(self._what, total)
            self._begun = True
        self._reporter.advance(done)
        if done == total:
            self._reporter.finish()
            self._begun = False


class Stages:
    """Progress of a job in stages as ``(stage, done, total)`` calls: a bar each, begun at its first report."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter, self._stage = reporter, ""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """``done`` of ``total`` of ``stage`` are made."""
        if stage != self._stage:
            self._stage = stage
            self._reporter.start(stage, total)
        self._reporter.advance(done)
        if done == total:
            self._reporter.finish()
            self._stage = ""
