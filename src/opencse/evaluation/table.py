"""Tables of results for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

ABSENT = "-"


def table_of(
    title: str,
    left: Sequence[str],
    right: Sequence[str],
    rows: Iterable[Sequence[str]],
    notes: Iterable[str | None] = (),
    *,
    grouped: bool = False,
) -> Table:
    """A table whose cells are shown as they stand.

    Args:
        title: above it.
        left: headers of the columns aligned to the left.
        right: headers of the columns after them, of numbers.
        rows: the cells of each row.
        notes: put together below it; None is left out.
        grouped: whether a line is drawn where the first cell of a row is another than before.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, caption="; ".join(note for note in notes if note) or None)
    for header in left:
        table.add_column(Text(header), overflow="fold")
    for header in right:
        table.add_column(Text(header), justify="right", no_wrap=True)
    before = None
    for row in rows:
        if grouped and before not in (None, row[0]):
            table.add_section()
        table.add_row(*map(Text, row))
        before = row[0]
    return table


def cell(value: float | None, *, complete: bool = True) -> str:
    """Two decimals, ``*`` after a value that is not over the published data, ``-`` for none."""
    return ABSENT if value is None else f"{value:.2f}{'' if complete else '*'}"


def mode_of(mode: str, classifier: str, usual: str) -> str:
    """How a classifier was trained, and which one unless it is the ``usual`` one."""
    return mode if classifier == usual else f"{mode}, {classifier}"
