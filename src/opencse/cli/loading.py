"""The first line of a command that loads much: somebody waits for it."""

from __future__ import annotations

import sys

from opencse.processes import started
from opencse.progress import Terminal
from opencse.version import __version__


def terminal() -> Terminal:
    """Where the command tells what it does.

    On a terminal it has told already that PyTorch, which takes seconds, is being loaded; to be called before anything
    of ``opencse`` that needs it.
    """
    tell = Terminal()
    if "torch" not in sys.modules and sys.stderr.isatty() and started().first:
        tell.say(f"opencse    {__version__}; loading PyTorch and transformers")
    return tell
