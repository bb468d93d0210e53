"""Finds the home folder that a ``~`` at the beginning of a path stands for.

A shell replaces it only where it begins a word: not in ``--out=~/model``, in quotes, in a list, in a recipe or study
file, or in Python. Then a folder of the name ``~`` would be made. So all of these follow one rule: ``~/model`` is in
the home folder, and ``./~/model`` is in a folder of that name. A `Path` is taken as it is, as everywhere in Python
(`Path.expanduser`); it drops the ``./``, so these two would be the same.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import overload

_PATH = re.compile(r"(?P<kind>(?:words|transfer|ditto(?:-\d+-\d+)?):)?(?P<path>~.*)", re.DOTALL)
"""A path that begins with ``~``, also in the names of baselines (``words:FILE``) and of data (``transfer:FOLDER``)."""


@overload
def in_home(path: str) -> str: ...


@overload
def in_home(path: str | Path) -> str | Path: ...


def in_home(path: str | Path) -> str | Path:
    """``path`` with the home folder in place of a ``~`` or ``~USER`` at its beginning; other names and a `Path` stay.

    Example:
        >>> in_home("models/one"), in_home("./~/one"), in_home("~/one").endswith("/one"), in_home("~/one")[0]
        ('models/one', './~/one', True, '/')
    """
    parts = None if isinstance(path, Path) else _PATH.fullmatch(path)
    if parts is None:
        return path
    location = os.path.expanduser(parts["path"])  # noqa: PTH111 - Path's refuses the name of an unknown user
    return (parts["kind"] or "") + location
