"""Seeds as they are typed."""

from __future__ import annotations

from opencse.cli.options import listed
from opencse.errors import UserError, shortened
from opencse.numerals import whole_number

_MOST_SEEDS = 10_000


def seeds_of(text: str) -> list[int]:
    """``42,43,44`` or ``42-46`` as numbers.

    Raises:
        UserError: for anything else.
    """
    seeds: list[int] = []
    for part in listed(text) or []:
        first, dash, last = part.partition("-")
        begin, end = whole_number(first), whole_number(last if dash else first)
        if begin is None or end is None or end < begin:
            raise UserError(f"--seeds: {shortened(part)!r} is neither a number nor a range such as 42-46")
        if end - begin >= _MOST_SEEDS:
            raise UserError(f"--seeds: {part!r} is more than {_MOST_SEEDS:,} seeds")
        seeds += range(begin, end + 1)
    return seeds
