"""Numbers as people type and read them."""

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


def number_of(count: int, one: str, several: str | None = None) -> str:
    """Writes a count with its noun: "1 row", "1,200 rows".

    Example:
        >>> number_of(1, "row"), number_of(1200, "row"), number_of(0, "relevant query"), number_of(2, "index")
        ('1 row', '1,200 rows', '0 relevant queries', '2 indexes')
        >>> number_of(1, "text is new", "texts are new"), number_of(2, "text is new", "texts are new")
        ('1 text is new', '2 texts are new')

    Args:
        count: how many.
        one: the noun, or a phrase, for one.
        several: for none and for several; by default ``one`` with the regular ending.
    """
    return f"{count:,} {one if count == 1 else several or _plural(one)}"


def _plural(noun: str) -> str:
    if re.search(r"[^aeiou]y$", noun):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"
