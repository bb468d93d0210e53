"""Names of the engines that run work in several processes: this machine, or a Ray cluster."""

from __future__ import annotations

from typing import Literal, get_args

from opencse.environment import require_packages
from opencse.errors import require_known

Engine = Literal["local", "ray"]
"""``local``: processes of this machine; ``ray``: processes of a Ray cluster."""
ENGINES: tuple[str, ...] = get_args(Engine)


def require_engine(name: str) -> None:
    """Refuses an unknown engine, and one whose package is not installed."""
    require_known(name, ENGINES, "engine")
    if name == "ray":
        require_packages("the engine ray", "ray", "ray", "pyarrow")
