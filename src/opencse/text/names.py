"""Ids that the program makes: each is taken by nothing else, whatever the texts call themselves."""

from __future__ import annotations


class UniqueNames:
    """Makes names unique: one that is taken gets the next number with which nothing is called.

    Example:
        >>> names = UniqueNames()
        >>> [names.unique(name) for name in ("example", "example", "example-1", "example")]
        ['example', 'example-1', 'example-1-1', 'example-2']
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def unique(self, name: str) -> str:
        """The name, with a number behind it where it was given before."""
        free, number = name, self._numbers.get(name, 0)
        while free in self._numbers:
            number += 1
            free = f"{name}-{number}"
        self._numbers |= {free: 0, name: number}
        return free


def id_after(name: str) -> int:
    """The next free number after an id that is a number; 0 for other ids.

    Example:
        >>> id_after("41"), id_after("a7")
        (42, 0)
    """
    return int(name) + 1 if name.isdecimal() and len(name) < 19 else 0
