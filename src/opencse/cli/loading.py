"""Reports that a command is loading PyTorch, which takes seconds."""

from __future__ import annotations

import sys

from opencse.processes import started
from opencse.progress import Terminal
from opencse.version import __version__


def terminal() -> Terminal:
    """The terminal that a command reports to, with a first line on it if PyTorch is not loaded yet.

    Called before anything of ``opencse`` is imported that needs PyTorch.
    """
    progress = Terminal()
    if "torch" not in sys.modules and sys.stderr.isatty() and started().first:
        progress.say(f"opencse    {__version__}; loading PyTorch and transformers")
    return progress
