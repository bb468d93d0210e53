"""Prompts that are put before the texts of training data, by column."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ColumnPrompts:
    """The prompts of a row's texts, by their columns.

    Example:
        >>> ColumnPrompts(single="", first="query: ", others="passage: ").of(3)
        ('query: ', 'passage: ', 'passage: ')

    Attributes:
        single: before the text of a row with one text.
        first: before the first text of a pair or triple.
        others: before the other texts of a pair or triple.
    """

    single: str = ""
    first: str = ""
    others: str = ""

    def __bool__(self) -> bool:
        return bool(self.single or self.first or self.others)

    def of(self, width: int) -> tuple[str, ...]:
        """The prompt of each of ``width`` columns."""
        return (self.single,) if width == 1 else (self.first, *[self.others] * (width - 1))
