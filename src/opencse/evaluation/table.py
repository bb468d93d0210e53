"""Tables of results for the terminal, in which scores that do not compare with published ones are marked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

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
    from opencse.evaluation.fitting_table import FittingTable, TableContent

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
