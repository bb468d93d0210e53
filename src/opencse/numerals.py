"""Numbers as people type them."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?\s*%?", re.ASCII)


def is_number(text: str) -> bool:
    """Whether ``text`` is a number, in decimal digits, maybe with a point or comma, an exponent or a percent sign."""
    return _NUMBER.fullmatch(text) is not None


def whole_number(text: str) -> int | None:
    """The whole number that ``text`` is, in decimal digits alone; None for anything else and beyond 64 bits."""
    if not text.isdecimal() or len(text) > 19:  # Python itself reads no more than 4,300 digits
        return None
    number = int(text)
    return number if number < 2**63 else None
