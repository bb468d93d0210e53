"""OpenCSE: raw text in, an evaluated sentence-embedding model out."""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = ["SentenceEncoder", "UserError", "__version__", "adapt", "evaluate", "judge", "pretrain", "train"]

if TYPE_CHECKING:
    from opencse.adaptation import adapt
    from opencse.encoder.encoder import SentenceEncoder
    from opencse.errors import UserError
    from opencse.run import evaluate, judge, pretrain, train

_HOMES = {
    "SentenceEncoder": "opencse.encoder.encoder",
    "UserError": "opencse.errors",
    "adapt": "opencse.adaptation",
    "evaluate": "opencse.run",
    "judge": "opencse.run",
    "pretrain": "opencse.run",
    "train": "opencse.run",
}


def __getattr__(name: str) -> object:
    """Loads a public name when it is first used, so that ``import opencse`` costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'opencse' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
