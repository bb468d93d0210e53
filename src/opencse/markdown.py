"""Prepares names for pages, cards and records: escapes Markdown, and removes folders of this machine."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path, PureWindowsPath

from opencse.errors import printable

# A character entity is text to Markdown and to the HTML made of it, in a table as in a paragraph.
_MARKUP = re.compile(r"[|`*$\\]|<(?=[a-zA-Z/!?])|\](?=[(\[:])|&(?=#|\w+;)")

_HOMES = re.compile(r"(?<![\w.-])(?:/home/|/Users/|[A-Za-z]:\\Users\\)[\w.-]+")


def as_text(name: object) -> str:
    """``name`` in one line that Markdown shows unchanged: no heading, link, code, table cell or HTML begins in it."""
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", printable(str(name)))


def public_name(name: str | Path) -> str:
    """A name for cards and records that leave this machine: the last component of a path, other names unchanged.

    Example:
        >>> public_name("/home/anna/models/e5"), public_name("intfloat/e5-small")
        ('e5', 'intfloat/e5-small')
    """
    text, path = str(name), Path(name)
    if "\\" in text and (last := PureWindowsPath(text).name):
        return last
    with contextlib.suppress(OSError, ValueError):
        if path.is_absolute() or text.startswith((".", "~")) or text.count("/") > 1 or os.path.lexists(path):
            return path.name or path.resolve().name
    return text


def without_home(text: str) -> str:
    """``text`` with the paths of home folders, the user's own and other people's, written as ``~``."""
    text = _HOMES.sub("~", text)
    with contextlib.suppress(RuntimeError):  # a user without one
        home = str(Path.home())
        if len(home) > 1:
            return re.sub(rf"(?<![\w.-]){re.escape(home)}(?![\w.-])", "~", text)
    return text
