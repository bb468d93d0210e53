"""Labelled sentences or pairs, in SentEval's order, and what the suites share that train a classifier on them."""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from opencse.arrays import Integers
from opencse.errors import UserError, nearest
from opencse.evaluation.cross_validation import Mode, TestOutcome
from opencse.evaluation.embedding import Embedded
from opencse.evaluation.record import Score
from opencse.evaluation.suite import Suite
from opencse.text.files.lines import read_lines


@dataclass(frozen=True, slots=True)
class Layout:
    """How the lines of a kind of file are written.

    Attributes:
        line: in words.
        counts: numbers of fields between tabs.
        label: which of them is the label.
        texts: which of them are sentences.
    """

    line: str
    counts: range
    label: int
    texts: slice


@dataclass(frozen=True, slots=True)
class LabelledLine:
    """One labelled line of a file; ``where`` is the file and line number, for messages."""

    where: str
    first: str
    label: str
    texts: tuple[str, ...]


def read_labelled(path: Path, layout: Layout) -> Iterator[LabelledLine]:
    """Yields the lines that are not blank; white space within a field becomes one space, as in SentEval.

    Raises:
        UserError: naming the line that has another layout, or no label or sentence.
    """
    for number, line in read_lines(path):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        fields = [" ".join(field.split()) for field in line.split("\t")]
        if len(fields) not in layout.counts:
            raise UserError(f"{where}: {len(fields)} field(s); a line is {layout.line}")
        label, texts = fields[layout.label], fields[layout.texts]
        if not label or not all(texts):
            raise UserError(f"{where}: the {'sentence' if label else 'label'} is empty; fill it or drop the line")
        yield LabelledLine(where, fields[0], label, tuple(texts))


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
class Labelled(ABC):
    """The examples of one task.

    Attributes:
        parts: by name, in the order ``all`` or ``train``, ``dev``, ``test``.
        classes: how the classes are written.
        files: the names of the files; the first one holds the training examples.
    """

    line_end: ClassVar[str] = "\n"
    """Of the lines that are hashed."""
    parts: dict[str, Examples]
    classes: tuple[str, ...]
    files: tuple[str, ...]

    @property
    @abstractmethod
    def complete(self) -> bool | None:
        """Whether these are the published examples, as far as their numbers say; None where none are published."""

    def texts(self) -> Iterator[list[str]]:
        """Yields the sides of each part."""
        for part in self.parts.values():
            yield from part.sides

    def sha256(self) -> str:
        """Returns a hash of the parts' labels and sentences, whatever the order of the lines that tie."""
        digest = hashlib.sha256()
        for name, part in self.parts.items():
            for label, *texts in zip(part.labels.tolist(), *part.sides, strict=True):
                digest.update(("\t".join([name, self.classes[label], *texts]) + self.line_end).encode())
        return digest.hexdigest()

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


L = TypeVar("L", bound=Labelled)


@dataclass(frozen=True)
class Classification(Suite[L]):
    """Scores each task by the accuracy of a classifier.

    Attributes:
        mode: ``test`` (10 folds, Adam, batch 64), which papers report, or ``fast`` (5 folds, RMSprop, batch 128).
        device: see ``Suite``.
    """

    mode: Mode = "test"
    device: str | None = None

    def accuracy(self, name: str, task: L, outcome: TestOutcome, n: int, started: float, **extras: Any) -> Score:  # noqa: ANN401
        """The score of a task on n examples, with what is recorded of every task and these ``extras``."""
        known = {"dev_accuracy": outcome.dev_accuracy} | extras
        known |= {"files": list(task.files), "examples": task.counts, "seconds": time.perf_counter() - started}
        return Score(
            suite=self.name,
            task=name,
            measure="accuracy",
            value=outcome.accuracy,
            n=n,
            complete=task.complete,
            extras=known,
        )
