"""Tables of results for the terminal, at any width; scores that do not compare with published ones are marked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from opencse.evaluation.record import AVERAGE, PARTIAL, EvaluationRecord

if TYPE_CHECKING:
    from rich.table import Table

ABSENT = "-"
MODEL = "Model"
"""Header of the column of models."""
_ADDED = re.compile(r"( \+ |, layer |, BM25).*")  # what follows a model's name in a row: a transform, BM25, a layer


@dataclass(frozen=True)
class Cell:
    """One score in a table.

    Attributes:
        value: shown with two decimals; None: shown as ``-``.
        complete: whether it is over the published data; if not, ``*`` follows it.
        suffix: added after it.

    Example:
        >>> str(Cell(76.254)), str(Cell(76.254, complete=False)), str(Cell(None))
        ('76.25', '76.25*', '-')
    """

    value: float | None
    complete: bool = True
    suffix: str = ""

    @classmethod
    def of(cls, record: EvaluationRecord, task: str, measure: str) -> Self:
        """The score of a task; of an average over fewer tasks than published with their number after it."""
        score = record.find(task, measure)
        if score is None:
            return cls.of(record, PARTIAL, measure) if task == AVERAGE else cls(None)
        partial = task in (AVERAGE, PARTIAL) and score.complete is False
        return cls(score.value, score.complete is not False or partial, f" ({score.n})" if partial else "")

    def __str__(self) -> str:
        if self.value is None:
            return ABSENT
        return f"{self.value:.2f}{'' if self.complete else '*'}{self.suffix}"


def short_names(models: Sequence[str]) -> list[str]:
    """Shortens the models' names to as many last parts as are needed to tell them apart.

    ``last`` alone is no name, since every run has a folder of that name. The runs of a comparison are called after
    their recipe, start and seed.

    Example:
        >>> short_names(["runs/a/last", "runs/b/last"])
        ['a/last', 'b/last']
        >>> short_names(["OUT/runs/bert/simcse/1/last", "OUT/runs/bert/esimcse/1/last"])
        ['simcse, bert, seed 1, last', 'esimcse, bert, seed 1, last']
    """
    runs = [_run_of_study(Path(model).parts) for model in models]
    if len({*filter(None, runs)}) < len([*filter(None, runs)]):
        runs = [""] * len(models)
    parts = [Path(model).parts for model in models]
    for length in range(1, max(map(len, parts), default=0) + 1):
        names = [run or str(Path(*path[-length:])) for run, path in zip(runs, parts, strict=True)]
        if len(set(names)) == len(names) and "last" not in names:
            return names
    return list(models)


def _run_of_study(parts: Sequence[str]) -> str:
    """Recipe, start and seed of ``OUT/runs/START/RECIPE/SEED``, with ``last`` or without; empty for other folders."""
    last = ", last" if parts[-1:] == ("last",) else ""
    runs, start, recipe, seed = ("", "", "", "", *(parts[:-1] if last else parts))[-4:]
    return f"{recipe}, {start}, {'seed ' * seed.isdigit()}{seed}{last}" if runs == "runs" else ""


def short_rows(rows: Sequence[str]) -> tuple[list[str], str]:
    """Shortens the models that rows begin with, and separates what is added to all of several rows.

    Example:
        >>> short_rows(["runs/a/last + whitening", "runs/b/last + whitening"])
        (['a/last', 'b/last'], ' + whitening')
        >>> short_rows(["models/a", "models/a + BM25"])
        (['a', 'a + BM25'], '')
    """
    parts = [(row[: match.start()], match[0]) if (match := _ADDED.search(row)) else (row, "") for row in rows]
    models = list(dict.fromkeys(model for model, _ in parts))
    short = dict(zip(models, short_names(models), strict=True))
    added = {addition for _, addition in parts}
    if len(rows) > 1 and len(added) == 1:
        return [short[model] for model, _ in parts], added.pop()
    return [short[model] + addition for model, addition in parts], ""


TableRow = Sequence[str | Cell]
"""The cells of one row; text is shown as it is."""


def constant_columns_in_title(
    title: str, head: Sequence[str], rows: Iterable[TableRow], movable: Iterable[str]
) -> tuple[str, list[str], list[list[str | Cell]]]:
    """Moves columns that are the same in all rows into the title, so that names fit into a narrow terminal.

    Args:
        title: of the table.
        head: headers of all columns.
        rows: the cells of each row.
        movable: headers of the columns that may be moved.

    Returns:
        The title, and the headers and rows that are left.

    Example:
        >>> constant_columns_in_title("Scores", ["Model", "Mode"], [["a", "fast"], ["b", "fast"]], ["Mode"])
        ('Scores; mode: fast', ['Model'], [['a'], ['b']])
    """
    names, cells = list(head), [list(row) for row in rows]
    for header in movable:
        column = names.index(header)
        if len({str(row[column]) for row in cells}) == 1:
            title = f"{title}; {header.lower()}: {cells[0][column]}"
            del names[column]
            for row in cells:
                del row[column]
    return title, names, cells


def results_table(
    title: str,
    labels: Sequence[str],
    right: Sequence[str],
    rows: Sequence[TableRow],
    notes: Iterable[str | None] = (),
    *,
    data: str = "",
    grouped: bool = False,
) -> Table:
    """Lays out labels and scores as a table; where the terminal is too narrow for it, see `FittingTable`.

    Args:
        title: above the table.
        labels: headers of the columns aligned to the left; one after the first that is the same in all rows is in the
            title instead. Models in the first are shortened; see `short_rows`.
        right: headers of the columns after them, aligned to the right.
        rows: the cells of each row.
        notes: below the table, one per line; None is left out.
        data: what is not as published where a cell is not ``complete`` (``number of pairs``); the first note says it.
        grouped: whether a line is drawn where the first cell of a row differs from the one above.
    """
    cells = [list(row) for row in rows]
    if labels[0] == MODEL:
        names, shared = short_rows([str(row[0]) for row in cells])
        cells = [[name, *row[1:]] for name, row in zip(names, cells, strict=True)]
        title = f"{title}; all{shared}" if shared else title
    title, head, cells = constant_columns_in_title(title, [*labels, *right], cells, reversed(labels[1:]))
    incomplete = any(isinstance(cell, Cell) and not cell.complete for row in cells for cell in row)
    mark = f"* not the published {data}: does not compare with published values" if incomplete else None
    texts = [[str(cell) for cell in row] for row in cells]
    sections = [grouped and row[0] != below[0] for row, below in pairwise(texts)]
    return FittingTable(
        TableContent(head[: len(head) - len(right)], right, texts, sections=[*sections, *[False][: len(texts)]]),
        title=title,
        caption="\n".join(note for note in (mark, *notes) if note) or None,
    )


def scores_table(
    title: str,
    results: Mapping[str, EvaluationRecord],
    columns: Sequence[tuple[str, str, str]],
    *,
    data: str,
    notes: Iterable[str | None] = (),
    usual: str | None = None,
) -> Table:
    """Lays out scores with one row per record, and ``-`` where it has none.

    Args:
        title: above the table.
        results: records by label.
        columns: header, task and measure of each.
        data: what ``*`` is about, see `results_table`.
        notes: below the table.
        usual: the classifier that is not named next to a record's mode; None: there are no modes.
    """
    rows: list[TableRow] = []
    for label, record in results.items():
        row: list[str | Cell] = [label]
        if usual is not None:
            mode, classifier = record.settings["mode"], record.settings["classifier"]
            row.append(mode if classifier == usual else f"{mode}, {classifier}")
        rows.append([*row, *(Cell.of(record, task, measure) for _, task, measure in columns)])
    labels = [MODEL] if usual is None else [MODEL, "Mode"]
    return results_table(title, labels, [header for header, _, _ in columns], rows, notes, data=data)


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
        folded: columns of ``right`` that hold sentences, which may be folded.
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
    """The names to list above, by number, and what is shown below them."""
    names = list[str]()
    for column in range(len(content.labels)):
        cells = list(dict.fromkeys(row[column] for row in content.rows))
        if max(map(len, cells), default=0) > NARROW:
            numbers = {cell: str(len(names) + at) for at, cell in enumerate(cells, start=1)}
            rows = [[*row[:column], numbers[row[column]], *row[column + 1 :]] for row in content.rows]
            content, names = replace(content, rows=rows), [*names, *cells]
        if _fits(content, console, options):
            return names, [content]
    return names, list(_turned(content, console, options))


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
