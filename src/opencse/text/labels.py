r"""Reads the label of each row of a text: a score, or the name of a class.

The label is in the last of the columns that are named (``--columns sentence1,sentence2,score``). Without names, the
columns of a file are recognised: ``anchor`` and ``positive``, ``sentence1`` and ``sentence2``, or ``premise`` and
``hypothesis``, with ``score``, ``similarity`` or ``label``; of a table without header, three columns of which the first
holds a number, as in files of graded pairs for ``--dev``.

A margin is by how much a teacher scores the positive of a row above its negative: any number, as the file has it, with
the columns ``anchor`` (or ``query``), ``positive``, ``negative`` and ``margin``.

Scores are divided by ``scale``, the largest possible score. Where that is not set, scores that are all from 0 to 1 stay
as they are, and others are divided by the largest one in the file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError, shortened
from opencse.numerals import whole_number
from opencse.text.values import finite_number

LabelKind = Literal["score", "class", "margin"]
MOST_CLASSES = 1_000
_HINT = "; name the column of {}s last in --columns"


@dataclass(frozen=True)
class RowLabels:
    """The labels of all rows as numbers.

    Attributes:
        values: (M,) scores from 0 to 1, numbers of classes from 0, or margins.
        scale: what the scores were divided by; None for classes and margins.
        classes: the names of the classes in the order of their numbers; empty for scores and margins.
    """

    values: NDArray[np.float64]
    scale: float | None = None
    classes: tuple[str, ...] = ()


def number_labels(
    labels: Iterable[tuple[str, object]], kind: LabelKind, source: str, *, scale: float | None = None
) -> RowLabels:
    """Checks labels and makes numbers of them.

    Example:
        >>> number_labels([("line 1", "5.0"), ("line 2", "2.5")], "score", "my file").values.tolist()
        [1.0, 0.5]
        >>> number_labels([("line 1", "no"), ("line 2", "yes"), ("line 3", "no")], "class", "my file").values.tolist()
        [0.0, 1.0, 0.0]

    Args:
        labels: file and line of each, for messages, and the label as it was read.
        kind: what they are.
        source: the name of the data, for messages about all of it.
        scale: the largest possible score.

    Raises:
        UserError: naming the file and the line: an empty label, a score that is no finite number from 0 to ``scale``,
            more than a thousand classes, or fewer than two different labels.
    """
    if kind == "margin":
        return _margins(labels, source)
    return _scores(labels, source, scale) if kind == "score" else _classes(labels, source)


def _margins(labels: Iterable[tuple[str, object]], source: str) -> RowLabels:
    values = np.asarray(
        [finite_number(value, where, "row", "margin", _HINT.format("margin")) for where, value in labels],
        dtype=np.float64,
    )
    if not len(values) or (values == values[0]).all():
        raise UserError(f"{source}: all {len(values):,} margins are equal, so there is nothing to learn from them")
    return RowLabels(values)


def _scores(labels: Iterable[tuple[str, object]], source: str, scale: float | None) -> RowLabels:
    scores = []
    largest = ("", 0.0)
    for where, value in labels:
        number = finite_number(value, where, "row", hint=_HINT.format("score"))
        if number < 0:
            raise UserError(f"{where}: the score {number:g} is below 0; scores are from 0 (unlike) upwards")
        if scale is not None and number > scale:
            raise UserError(f"{where}: the score {number:g} is above data.scale = {scale:g}; correct one of them")
        largest = max(largest, (where, number), key=lambda one: one[1])
        scores.append(number)
    values = np.asarray(scores, dtype=np.float64)
    if not len(values) or (values == values[0]).all():
        raise UserError(f"{source}: all {len(values):,} scores are equal, so there is nothing to learn from them")
    divisor = scale or (1.0 if largest[1] <= 1 else largest[1])
    return RowLabels(values / divisor, divisor)


def _classes(labels: Iterable[tuple[str, object]], source: str) -> RowLabels:
    numbers: dict[str, int] = {}
    values = []
    for where, value in labels:
        name = "" if value is None else str(value).strip()
        if not name or isinstance(value, list | dict):
            raise UserError(f"{where}: the class is {'empty' if not name else 'no name or number'}; fill it or drop it")
        if len(numbers) == MOST_CLASSES and name not in numbers:
            raise UserError(
                f"{where}: more than {MOST_CLASSES:,} different classes up to here, such as {shortened(repr(name))}; "
                "name the column of classes last in --columns"
            )
        values.append(numbers.setdefault(name, len(numbers)))
    if len(numbers) < 2:
        raise UserError(f"{source}: all rows have the class {', '.join(numbers)!r}; give rows of at least two classes")
    names = sorted(numbers, key=_class_order)
    positions = np.empty(len(names), dtype=np.float64)
    positions[[numbers[name] for name in names]] = np.arange(len(names))
    return RowLabels(positions[values], classes=tuple(names))


def _class_order(name: str) -> tuple[bool, int, str]:
    """Whole numbers by value, before the other names in alphabetical order."""
    number = whole_number(name.removeprefix("-"))
    if number is None:
        return True, 0, name
    return False, -number if name.startswith("-") else number, name
