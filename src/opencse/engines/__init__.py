"""Engines that run work in several processes: this machine, or a Ray cluster."""

from __future__ import annotations

from typing import Literal

from opencse.environment import require_packages

Engine = Literal["local", "ray"]
"""``local``: processes of this machine; ``ray``: processes of a Ray cluster."""


def require_engine(name: Engine) -> None:
    """Refuses an engine whose package is not installed."""
    if name == "ray":
        require_packages("the engine ray", "ray", "ray", "pyarrow")
