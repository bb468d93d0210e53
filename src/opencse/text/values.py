"""Checks that a value of a record is text."""

from __future__ import annotations

from opencse.errors import UserError
from opencse.text.scripts import is_unicode


def require_text(value: object, name: str, where: str) -> str:
    """Returns a value that has to be text.

    Example:
        >>> require_text("A cat.", "'title'", "a.jsonl, line 1")
        'A cat.'
        >>> require_text(7, "'title'", "a.jsonl, line 1")
        Traceback (most recent call last):
        ...
        opencse.errors.UserError: a.jsonl, line 1: 'title' is int, not text; correct it or name another column

    Args:
        value: as read.
        name: names it in messages.
        where: names its record in messages.

    Raises:
        UserError: for anything else, and for text that holds half of a surrogate pair.
    """
    if not isinstance(value, str):
        raise UserError(f"{where}: {name} is {type(value).__name__}, not text; correct it or name another column")
    if not is_unicode(value):
        raise UserError(f"{where}: {name} holds half of a surrogate pair, which is not text; correct its \\u escapes")
    return value


def require_filled(value: object, name: str, where: str, unit: str = "line") -> str:
    """Returns a text that must not be empty, without white space around it.

    Example:
        >>> require_filled(" A cat. ", "sentence1", "a.jsonl, line 1")
        'A cat.'

    Args:
        value: as read.
        name: names it in messages.
        where: names its record in messages.
        unit: what a record is: a line or a row.

    Raises:
        UserError: as `require_text`; and for white space alone.
    """
    text = require_text(value, name, where).strip()
    if not text:
        raise UserError(f"{where}: {name} is empty; fill it or drop the {unit}")
    return text
