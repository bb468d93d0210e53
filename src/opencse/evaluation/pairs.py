"""Sentence pairs with gold scores, read from tsv, csv or jsonl files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError, shortened
from opencse.numerals import is_number
from opencse.text.files.lines import read_lines, require_file, suffix_of
from opencse.text.readers import Source
from opencse.text.values import finite_number, require_filled

COLUMNS = ("score", "sentence1", "sentence2")
TSV_LAYOUT = "a .tsv line is score<TAB>sentence1<TAB>sentence2, without a header"

GivenPairs = Sequence[tuple[float, str, str]]
GradedRow = tuple[str, Sequence[object]]
"""File and line, for messages, and the raw values in the order of ``COLUMNS``."""


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """n sentence pairs, each with a gold similarity.

    Attributes:
        name: for tables and messages, for instance ``MSRpar``.
        scores: gold scores, float64 (n,), in the data's own unit (0 to 5 in STS, 1 to 5 in SICK);
            higher is more similar.
        first: n first sentences.
        second: n second sentences.

    Example:
        >>> pairs = ScoredPairs("mine", np.array([4.5, 1.0]), ["a cat", "rain"], ["a kitten", "a train"])
        >>> len(pairs), pairs.first
        (2, ['a cat', 'rain'])
    """

    name: str
    scores: NDArray[np.float64]
    first: list[str]
    second: list[str]

    def __len__(self) -> int:
        return len(self.first)

    def fingerprint(self) -> str:
        """Returns a hash of the scores and sentences."""
        rows = zip(self.scores.tolist(), self.first, self.second, strict=True)
        return hashlib.sha256("\n".join(map(repr, rows)).encode()).hexdigest()


def given_pairs(pairs: GivenPairs, name: str) -> ScoredPairs:
    """Reads pairs given in Python as (score, sentence, sentence) each; ``name`` is the argument's name.

    Raises:
        TypeError: if they are something else, naming the argument and the pair.
        UserError: see ``read_scored_pairs``.
    """
    if not isinstance(pairs, Sequence) or isinstance(pairs, bytes | bytearray):
        raise TypeError(
            f"{name} is a file, or a list of (score, sentence, sentence), not {type(pairs).__name__}; see opencse.train"
        )
    for number, pair in enumerate(pairs):
        if not isinstance(pair, tuple | list) or len(pair) != len(COLUMNS):
            raise TypeError(f"{name}[{number}] is (score, sentence, sentence), not {shortened(repr(pair))}")
    return scored_pairs(name, ((f"{name}[{number}]", pair) for number, pair in enumerate(pairs)), name=name)


def read_scored_pairs(path: Path) -> ScoredPairs:
    r"""Reads the pairs of a file; its suffix says its kind, and ``.gz``, ``.xz``, ``.bz2`` may follow.

    ``.tsv`` holds ``score<TAB>sentence1<TAB>sentence2`` without a header and without quoting; ``.csv`` and
    ``.jsonl`` have named columns ``score``, ``sentence1``, ``sentence2`` (others are ignored). Blank lines
    are skipped, surrounding white space is dropped.

    Raises:
        UserError: in one line, with file, line and fix: a missing or empty file, a wrong number of fields,
            a missing column, a score that is not a finite number, an empty sentence, fewer than 2 pairs,
            equal scores throughout.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "mine.tsv"
        >>> _ = file.write_text("4.5\ta cat\ta kitten\n1\train\ta train\n", encoding="utf-8")
        >>> read_scored_pairs(file).scores.tolist()
        [4.5, 1.0]
    """
    path = Path(path)
    require_file(path)
    suffix = suffix_of(path)
    reader = _READERS.get(suffix)
    if reader is None:
        raise UserError(f"{path}: unknown kind of pair file {suffix!r}; known: {', '.join(_READERS)}")
    return scored_pairs(str(path), reader(path), name=path.name[: path.name.lower().rindex(suffix)])


def scored_pairs(source: str, records: Iterable[GradedRow], *, name: str) -> ScoredPairs:
    """Checks raw records one by one and makes ``ScoredPairs`` of them.

    Args:
        source: a file or data set, for messages about all of it.
        records: file and line, and raw score, first and second sentence of each pair.
        name: the name of the pairs.

    Raises:
        UserError: as ``read_scored_pairs``.
    """
    scores: list[float] = []
    first: list[str] = []
    second: list[str] = []
    for where, (score, one, two) in records:
        scores.append(finite_number(score, where))
        first.append(require_filled(one, COLUMNS[1], where))
        second.append(require_filled(two, COLUMNS[2], where))
    if len(scores) < 2:
        raise UserError(f"{source}: {len(scores)} pair(s); a correlation needs at least 2")
    if len(set(scores)) == 1:
        raise UserError(
            f"{source}: all {len(scores)} gold scores are {scores[0]:g}, so no correlation is defined; give pairs with "
            "different scores"
        )
    return ScoredPairs(name, np.asarray(scores, dtype=np.float64), first, second)


def _read_tsv(path: Path) -> Iterator[GradedRow]:
    for number, line in read_lines(path):
        if not line.strip():
            continue
        fields = line.split("\t")
        where = f"{path}, line {number}"
        if len(fields) != len(COLUMNS):
            raise UserError(f"{where}: {len(fields)} field(s), 3 expected; {TSV_LAYOUT}")
        if number == 1 and not is_number(fields[0].strip()):
            raise UserError(f"{where}: the score {fields[0][:40]!r} is not a number; {TSV_LAYOUT}")
        yield where, fields


def _read_columns(path: Path) -> Iterator[GradedRow]:
    """Reads a file whose columns have names."""
    for record in Source(str(path)).records(COLUMNS):
        yield f"{path}, line {record.number}", record.values


_READERS: dict[str, Callable[[Path], Iterator[GradedRow]]] = {
    ".tsv": _read_tsv,
    ".csv": _read_columns,
    ".jsonl": _read_columns,
}
