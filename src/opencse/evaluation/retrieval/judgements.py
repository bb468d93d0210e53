"""Relevance judgements of a retrieval data set."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from opencse.errors import UserError
from opencse.text.files.lines import read_lines

HEADER = "query-id<TAB>corpus-id<TAB>score"
_COLUMNS = (("query", "qid"), ("corpus", "doc", "passage", "pid"), ("score", "rel", "label", "grade"))
"""Words that a header has in the name of each column."""


@dataclass(frozen=True)
class Judgements:
    """The judgements of a file about known queries.

    Attributes:
        levels: query id -> document id -> relevance.
        missing: query id -> relevance of the documents that are not in the corpus.
        notes: ids that were judged but are unknown, one sentence each.
    """

    levels: dict[str, dict[str, int]]
    missing: dict[str, list[int]]
    notes: tuple[str, ...]


def read_judgements(
    path: Path, queries: Collection[str], documents: Collection[str], names: tuple[str, str]
) -> Judgements:
    """Reads a file of judgements, and checks their ids against the known ones.

    Args:
        path: lines of query id, document id and relevance with tabs between, after a header or without one; or TREC's
            form with a second column that is not read. ``.gz``, ``.xz``, ``.bz2`` may follow.
        queries: ids of the queries.
        documents: ids of the documents.
        names: files of the queries and of the documents, for messages.

    Raises:
        UserError: naming file and line: a line of another form, judgements that contradict each other, or none of a
            known query and document.
    """
    levels: dict[str, dict[str, int]] = {}
    missing: dict[str, dict[str, int]] = {}
    unknown: tuple[list[tuple[str, str]], list[tuple[str, str]]] = ([], [])
    for where, query, document, level in _lines_of(path):
        if query not in queries:
            unknown[0].append((where, query))
            continue
        known = document in documents
        if not known:
            unknown[1].append((where, document))
        before = (levels if known else missing).setdefault(query, {}).setdefault(document, level)
        if before != level:
            raise UserError(
                f"{where}: document {document[:40]!r} has relevance {before} for query {query[:40]!r} above, "
                f"and {level} here; keep one of the two lines"
            )
    if not levels and any(unknown):
        kind = 0 if not missing else 1
        where, key = unknown[kind][0]
        kind_of_id = ("query", "document")[kind]
        hint = _similar(key, (queries, documents)[kind])
        raise UserError(
            f"{where}: the {kind_of_id} {key[:40]!r} is not in {names[kind]}{hint}, and no other line names a query "
            "and a document that are there; write the ids the same in all three files"
        )
    notes = [
        f"{path.name}: {len(lines):,} judgements name {kind_of_id} not in {name} (the first is {lines[0][1][:40]!r}"
        f"{_similar(lines[0][1], known)}), {so}"
        for lines, kind_of_id, name, known, so in (
            (unknown[0], "queries", names[0], queries, "and are not used"),
            (unknown[1], "documents", names[1], documents, "which count as not found"),
        )
        if lines
    ]
    return Judgements(levels, {key: list(levels_of.values()) for key, levels_of in missing.items()}, tuple(notes))


def _similar(key: str, known: Collection[str]) -> str:
    """Names the known id that was probably meant: another case, leading zeros, or a float's ``.0``."""

    def plain(one: str) -> str:
        return one.casefold().removesuffix(".0").lstrip("0")

    match = next((one for one in known if plain(one) == plain(key)), None)
    return "" if match is None else f"; {match[:40]!r} is, and ids are compared as text"


def _lines_of(path: Path) -> Iterator[tuple[str, str, str, int]]:
    """Yields file and line, query id, document id and relevance of each line."""
    first = True
    for number, line in read_lines(path):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        fields = [field.strip() for field in line.split("\t")] if "\t" in line else line.split()
        if len(fields) == 4 and _number(fields[3]) is not None:  # TREC's: query, iteration, document, relevance
            del fields[1]
        if len(fields) != 3 or not all(fields):
            filled = sum(bool(field) for field in fields)
            raise UserError(f"{where}: {filled} filled field(s) between tabs, 3 expected; a line is {HEADER}")
        header, first = first, False
        level = _number(fields[2])
        if level is None and header:
            _require_order(where, fields)
            continue
        if level is None or not level.is_integer() or abs(level) >= 2**53:
            raise UserError(f"{where}: the score {fields[2][:40]!r} is not an integer; a line is {HEADER}")
        yield where, fields[0], fields[1], int(level)


def _require_order(where: str, names: Sequence[str]) -> None:
    """Refuses a header that names the columns in another order: numbers as ids would be mistaken for each other."""
    for position, name in enumerate(names):
        meant = next(
            (kind for kind, words in enumerate(_COLUMNS) if any(word in name.casefold() for word in words)), None
        )
        if meant not in (None, position):
            raise UserError(f"{where}: the columns are {', '.join(names)}; put them in the order {HEADER}")


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
