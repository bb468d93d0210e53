"""Labelled sentences or pairs, in SentEval's order, for the suites that train a classifier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import Integers
from opencse.errors import UserError, nearest
from opencse.evaluation.embedding import Embedded


@dataclass(frozen=True, slots=True)
class LabelledLine:
    """One labelled line of a file; ``where`` is the file and line number, for messages."""

    where: str
    label: str
    texts: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Examples:
    """n labelled sentences, or pairs, in SentEval's order: by number of words, then class, then position in the file.

    Attributes:
        labels: class numbers (n,).
        first: n sentences.
        second: n more for pairs, else None.
    """

    labels: Integers
    first: list[str]
    second: list[str] | None

    def __len__(self) -> int:
        return len(self.first)

    @property
    def sides(self) -> list[list[str]]:
        """The sentences, or the first and the second sentences of pairs."""
        return [self.first] if self.second is None else [self.first, self.second]

    @classmethod
    def of(cls, lines: Sequence[LabelledLine], number: Mapping[str, int], known: str) -> Examples:
        """Makes examples of lines with one or two texts each.

        Args:
            lines: all with the same number of texts.
            number: the class of each label.
            known: a clause that lists the labels, for the message.

        Raises:
            UserError: for a line with another label.
        """
        for line in lines:
            if line.label not in number:
                raise UserError(
                    f"{line.where}: unknown label {line.label[:40]!r}{nearest(line.label, number)}; {known}; "
                    "correct or drop the line"
                )
        ordered = sorted(lines, key=lambda line: (*(len(text.split(" ")) for text in line.texts), number[line.label]))
        return cls(
            labels=np.array([number[line.label] for line in ordered], dtype=np.intp),
            first=[line.texts[0] for line in ordered],
            second=[line.texts[1] for line in ordered] if len(lines[0].texts) > 1 else None,
        )


@dataclass(frozen=True, eq=False)
class Labelled:
    """The examples of one task.

    Attributes:
        parts: by name, in the order ``all`` or ``train``, ``dev``, ``test``.
        classes: how the classes are written.
        files: the names of the files; the first one holds the training examples.
    """

    parts: dict[str, Examples]
    classes: tuple[str, ...]
    files: tuple[str, ...]

    def texts(self) -> Iterator[list[str]]:
        """Yields the sides of each part."""
        for part in self.parts.values():
            yield from part.sides

    @property
    def counts(self) -> dict[str, int]:
        """The number of examples by part."""
        return {name: len(part) for name, part in self.parts.items()}

    @property
    def labels(self) -> Integers:
        """The classes (n,) of all parts, one after another."""
        return np.concatenate([part.labels for part in self.parts.values()])

    @property
    def rows(self) -> dict[str, Integers]:
        """By part, the positions of its examples in ``labels``."""
        ends = np.cumsum(list(self.counts.values()))
        return dict(zip(self.parts, np.split(np.arange(ends[-1]), ends[:-1]), strict=True))

    def features(self, embedded: Embedded) -> NDArray[np.float32]:
        """Returns the features of each example: its vector (n, d), or of a pair [|u - v|, u * v] (n, 2 d)."""
        return np.concatenate(
            [
                embedded.of(part.first).astype(np.float32)
                if part.second is None
                else embedded.pair_features(part.first, part.second)
                for part in self.parts.values()
            ]
        )

    def counted(self) -> str:
        """Describes the numbers of examples and the files."""
        return f"{listed(self.counts)}; from {', '.join(self.files)}"


def listed(counts: Mapping[str, int]) -> str:
    """Writes numbers by name in words."""
    return ", ".join(f"{name} {n:,}" for name, n in counts.items())
