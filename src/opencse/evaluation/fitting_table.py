"""A table for the terminal that stays readable where the terminal is narrower than its names and scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

NARROW = 2
"""Width of the labels that are not worth a number."""
_UNLIMITED = 100_000


@dataclass(frozen=True)
class TableContent:
    """What a table shows.

    Attributes:
        labels: headers of the columns aligned to the left, whose cells are names.
        right: headers of the columns after them.
        rows: the cells of each row, labels first.
        folded: those of ``right`` that hold sentences, which may be folded.
        sections: whether a line is drawn below each row; none by default.
    """

    labels: Sequence[str]
    right: Sequence[str]
    rows: Sequence[Sequence[str]]
    folded: frozenset[str] = frozenset()
    sections: Sequence[bool] = ()


class FittingTable(Table):
    """A table that is laid out differently in a narrow terminal, so that no name or score is broken or hidden.

    The longest names are listed above it then, with a number that stands for them; if that is still too wide, the
    scores are in rows, with as many columns as there is room for in each of several tables.

    Args:
        content: what it shows.
        title: above it.
        caption: notes below it, one per line.

    Example:
        >>> content = TableContent(["Model"], ["one", "two"], [["a/folder/with/a/long/name", "50.00", "60.00"]])
        >>> Console(width=30).print(FittingTable(content))
        1 = a/folder/with/a/long/name
        ┏━━━━━━━┳━━━━━━━┳━━━━━━━┓
        ┃ Model ┃   one ┃   two ┃
        ┡━━━━━━━╇━━━━━━━╇━━━━━━━┩
        │ 1     │ 50.00 │ 60.00 │
        └───────┴───────┴───────┘
    """

    def __init__(self, content: TableContent, *, title: str | None = None, caption: str | None = None) -> None:
        # rich would read [b] in the name of a model as bold
        super().__init__(title=escape(title or ""), caption=escape(caption or ""), caption_justify="left")
        self.content = content
        for header in content.labels:
            self.add_column(Text(header), overflow="fold")
        for header in content.right:
            folded = header in content.folded
            self.add_column(Text(header), justify="left" if folded else "right", no_wrap=not folded, overflow="fold")
        for row, last in zip(content.rows, content.sections or [False] * len(content.rows), strict=True):
            self.add_row(*map(Text, row), end_section=last)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if _fits(self.content, console, options):
            yield from super().__rich_console__(console, options)
            return
        names, parts = _narrower(self.content, console, options)
        for number, name in enumerate(names, start=1):
            yield Text(f"{number} = {name}", no_wrap=True, overflow="ignore")  # unbroken, so that it can be copied
        for part in parts:
            table = FittingTable(part)
            table.title = self.title if part is parts[0] else None
            table.caption = self.caption if part is parts[-1] else None
            yield from Table.__rich_console__(table, console, options)


def _narrower(content: TableContent, console: Console, options: ConsoleOptions) -> tuple[list[str], list[TableContent]]:
    """The names to list above, by number, and what is shown below them: with as few numbers and tables as possible."""
    names = list[str]()
    layouts = [(names, content)]
    while (column := _longest(content)) is not None:
        cells = list(dict.fromkeys(row[column] for row in content.rows))
        content = _with_numbers(content, column, {cell: str(len(names) + 1 + at) for at, cell in enumerate(cells)})
        names = [*names, *cells]
        if _fits(content, console, options):
            return names, [content]
        layouts.append((names, content))
    turned = [(listed, list(_turned(layout, console, options))) for listed, layout in layouts]
    return next((one for one in turned if len(one[1]) == 1 and _fits(one[1][0], console, options)), turned[-1])


def _fits(content: TableContent, console: Console, options: ConsoleOptions) -> bool:
    """Whether all names and scores fit into a line; a sentence needs the width of its header or longest word alone."""
    table = FittingTable(content)
    unlimited = options.update(max_width=_UNLIMITED)
    needed = Measurement.get(console, unlimited, table).maximum
    for column in table.columns[len(content.labels) :]:
        if not column.no_wrap:
            widths = [Measurement.get(console, unlimited, cell) for cell in (column.header, *column.cells)]
            needed -= max(width.maximum for width in widths) - max(width.minimum for width in widths)
    return needed <= options.max_width


def _longest(content: TableContent) -> int | None:
    """The column of labels with the longest name; None if all are short."""
    widths = [max((len(row[column]) for row in content.rows), default=0) for column in range(len(content.labels))]
    longest = max(widths, default=0)
    return widths.index(longest) if longest > NARROW else None


def _with_numbers(content: TableContent, column: int, numbers: dict[str, str]) -> TableContent:
    rows = [[*row[:column], numbers[row[column]], *row[column + 1 :]] for row in content.rows]
    return replace(content, rows=rows)


def _turned(content: TableContent, console: Console, options: ConsoleOptions) -> Iterator[TableContent]:
    """Tables with one row per score, each with as many of the rows as fit, and at least one."""
    count = len(content.labels)
    first = " / ".join(content.labels)
    remaining = list(content.rows)

    def turned(rows: Sequence[Sequence[str]]) -> TableContent:
        headers = [" / ".join(row[:count]) for row in rows]
        cells = [[header, *(row[count + column] for row in rows)] for column, header in enumerate(content.right)]
        return TableContent([first], headers, cells, folded=frozenset(headers) if content.folded else frozenset())

    while remaining:
        sizes = range(len(remaining), 1, -1)
        size = next((size for size in sizes if _fits(turned(remaining[:size]), console, options)), 1)
        yield turned(remaining[:size])
        remaining = remaining[size:]
