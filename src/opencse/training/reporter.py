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
