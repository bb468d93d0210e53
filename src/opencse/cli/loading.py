"""Reports that a command is loading PyTorch, which takes seconds."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from opencse.processes import started
from opencse.progress import Terminal
from opencse.version import __version__


class _Notice(MetaPathFinder):
    """Prints one line when PyTorch is about to be imported; many commands work without it."""

    def __init__(self, progress: Terminal) -> None:
        self._progress = progress

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Finds nothing; the finders after this one do."""
        del path, target
        if fullname == "torch":
            sys.meta_path.remove(self)
            self._progress.say(f"opencse    {__version__}; loading PyTorch and transformers")
        return None


def terminal() -> Terminal:
    """The terminal that a command reports to, with a line on it when PyTorch begins to be loaded."""
    progress = Terminal()
    if "torch" not in sys.modules and sys.stderr.isatty() and started().first:
        sys.meta_path.insert(0, _Notice(progress))
    return progress
