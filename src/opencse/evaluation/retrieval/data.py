"""Retrieval data sets in BEIR's layout: documents, queries, and which documents are relevant to which query."""

from __future__ import annotations

import hashlib
import json
import math
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from opencse.errors import UserError
from opencse.evaluation.suite import TaskData, chosen
from opencse.files import require_folder
from opencse.numerals import number_of
from opencse.text.files.lines import COMPRESSED, read_lines, read_objects
from opencse.text.scripts import folded
from opencse.text.values import require_text

CORPUS, QUERIES, QRELS = "corpus.jsonl", "queries.jsonl", "qrels"


@dataclass(frozen=True)
class RetrievalTask:
    """One data set: m documents of different texts, and n queries with a relevant document.

    Attributes:
        name: its folder's name, for instance ``scifact``.
        document_ids: m ids.
        documents: m texts, ``title + " " + text`` without white space around it; may be empty.
        query_ids: n ids, in the order of the queries' file.
        queries: n texts.
        judged: n mappings, document position -> relevance (an integer; above 0 is relevant, at least one is).
        without_relevant: judged queries that were left out, since no document is relevant to them.
        copies: id of each further document that has the text of one of the m, but for letter case, spaces and Unicode
            forms -> the position of that one, which is ranked for all with the highest of their judgements.
        own_documents: query id -> position of the document that has the same id and, in the same sense, its text.
        missing: relevance of judged documents that are not among the m, one list for each query; they count as not
            found. Empty where there are none.
        notes: what the judgements name that the data lacks, one sentence each.
    """

    name: str
    document_ids: list[str]
    documents: list[str]
    query_ids: list[str]
    queries: list[str]
    judged: list[dict[int, int]]
    without_relevant: int
    copies: dict[str, int] = field(default_factory=dict)
    own_documents: dict[str, int] = field(default_factory=dict)
    missing: list[list[int]] = field(default_factory=list)
    notes: tuple[str, ...] = ()

    def texts(self) -> Iterator[list[str]]:
        """Yields queries and documents."""
        yield from (self.queries, self.documents)

    @property
    def positions(self) -> dict[str, int]:
        """The position of each document by id, copies included."""
        return {name: position for position, name in enumerate(self.document_ids)} | self.copies

    def described(self, keep_identical_ids: bool = False) -> str:
        """The number of documents, and what is special about them and the judgements."""
        left_out = sum(position is not None for position in self.left_out(keep_identical_ids))
        notes = [number_of(len(self.documents) + len(self.copies), "document"), *self.notes]
        if left_out:
            what = number_of(left_out, "document that is its query", "documents that are their query")
            notes.insert(1, f"{what}, by id and text, left out (--keep-identical-ids keeps them)")
        if self.copies:
            what = number_of(len(self.copies), "document has", "documents have")
            notes.insert(1, f"{what} the text of another one and its rank")
        return "; ".join(notes)

    def left_out(self, keep_identical_ids: bool = False) -> list[int | None]:
        """The document that is left out of each query's ranking: the query itself, unless that is judged relevant.

        In collections whose queries are documents (ArguAna, Quora) the query would find itself first. BEIR's code
        removes each document with the query's id, which removes others where both are numbered from 0.

        Args:
            keep_identical_ids: leave none out.
        """
        own = [None if keep_identical_ids else self.own_documents.get(name) for name in self.query_ids]
        return [
            None if position is None or levels.get(position, 0) > 0 else position
            for position, levels in zip(own, self.judged, strict=True)
        ]

    def of_queries(self, rows: Sequence[int]) -> RetrievalTask:
        """The same documents, with some of the queries."""
        return replace(
            self,
            query_ids=[self.query_ids[row] for row in rows],
            queries=[self.queries[row] for row in rows],
            judged=[self.judged[row] for row in rows],
            missing=[self.missing[row] for row in rows] if self.missing else [],
        )

    def sha256(self) -> str:
        """Returns a hash of ids, texts and judgements."""
        digest = hashlib.sha256()
        for pair in zip(self.document_ids, self.documents, strict=True):
            digest.update(json.dumps(pair).encode() + b"\n")
        for query in zip(self.query_ids, self.queries, self.judged, strict=True):
            digest.update(json.dumps(query, sort_keys=True).encode() + b"\n")
        for more in filter(None, (self.missing, self.copies)):
            digest.update(json.dumps(more).encode() + b"\n")
        return digest.hexdigest()


RetrievalData = TaskData[RetrievalTask]


def load_retrieval(folder: Path, tasks: Sequence[str] | None = None, *, split: str = "test") -> RetrievalData:
    """Reads the data sets of a folder, each in BEIR's layout (Thakur et al. 2021); the folder may be one itself.

    A data set holds ``corpus.jsonl`` (``_id``, ``title``, ``text`` on each line; the title may be missing),
    ``queries.jsonl`` (``_id``, ``text``) and ``qrels/<split>.tsv`` (query id, document id and integer relevance,
    after a header or without one; or TREC's four columns). ``.gz``, ``.xz``, ``.bz2`` may follow each name. Ids are
    compared as text, without white space around them: ``7`` in JSON is ``"7"``, and ``"007"`` is another id. Queries
    that the judgements do not name belong to other splits and are not used. Judgements of unknown queries are not
    used either; documents that are judged but not in the corpus count as not found, as trec_eval counts them. Both
    are reported in the task's ``notes``.

    Args:
        folder: holds one folder per data set, or is one.
        tasks: names of data sets; None: all.
        split: name of the judgements.

    Raises:
        UserError: in one line, with file, line and fix: a missing file, an unknown data set, a line that is not
            as above, an id that occurs twice, judgements that contradict each other or of which none names a query
            and a document of the data, no query with a relevant document.
    """
    require_folder(folder, "give a folder in BEIR's layout, or of several; opencse label makes one of your queries")
    if _find(folder, CORPUS) is not None:
        available = {folder.resolve().name: folder}
    else:
        available = {
            entry.name: entry
            for entry in sorted(folder.iterdir())
            if entry.is_dir() and _find(entry, CORPUS) is not None
        }
    if not available:
        raise UserError(f"{folder}: no data set in BEIR's layout; {CORPUS} is neither in it nor in a folder in it")
    selected = {name: available[name] for name in chosen(tasks, available, "retrieval data set", folder)}
    for path in selected.values():
        complete_labels(path)
    return RetrievalData(str(folder), "raw", {name: _load(name, path, split) for name, path in selected.items()})


def complete_labels(folder: Path) -> None:
    """Writes what a killed `opencse label` left unwritten in its folder."""
    if (folder / "labels.json").is_file():
        from opencse.labelling.labels import LabelFolder

        LabelFolder(folder).catch_up()


def _load(name: str, folder: Path, split: str) -> RetrievalTask:
    remedy = _remedy(folder, split)
    corpus, queries = _require(folder, CORPUS, remedy), _require(folder, QUERIES, remedy)
    qrels = _require(folder / QRELS, f"{split}.tsv", remedy)
    bodies: dict[str, str] = {}
    documents = _read_texts(corpus, bodies)
    texts = _read_texts(queries)
    forms = {key: folded(text) for key, text in documents.items()}
    written: dict[str, str] = {}  # of equal texts one, whatever their order
    for key, form in forms.items():
        written[form] = min(documents[key], written.get(form, documents[key]))
    positions = {form: position for position, form in enumerate(written)}
    position_of = {key: positions[form] for key, form in forms.items()}
    by_query, not_there, notes = read_judgements(qrels, set(texts), documents, (queries.name, corpus.name))
    judged: dict[str, dict[int, int]] = {}
    for query, levels in by_query.items():
        of_query = judged.setdefault(query, {})
        for key, level in levels.items():
            of_query[position_of[key]] = max(level, of_query.get(position_of[key], level))
    answered = [
        key for key in texts if any(level > 0 for level in (*judged.get(key, {}).values(), *not_there.get(key, ())))
    ]
    if not answered:
        raise UserError(
            f"{qrels}: no query has a relevant document (score above 0), so there is nothing to find; {remedy}"
        )
    ids = {position: key for key, position in reversed(position_of.items())}
    missing = [not_there.get(key, []) for key in answered]
    return RetrievalTask(
        name=name,
        document_ids=[ids[position] for position in range(len(written))],
        documents=list(written.values()),
        copies={key: position for key, position in position_of.items() if ids[position] != key},
        own_documents={
            key: position_of[key]
            for key in answered
            if key in forms and folded(texts[key]) in (forms[key], folded(bodies.get(key, "")))
        },
        query_ids=answered,
        queries=[texts[key] for key in answered],
        judged=[judged.get(key, {}) for key in answered],
        without_relevant=len({*judged, *not_there}) - len(answered),
        missing=missing if any(missing) else [],
        notes=notes,
    )


def _find(folder: Path, name: str) -> Path | None:
    return next((path for suffix in ("", *COMPRESSED) if (path := folder / f"{name}{suffix}").is_file()), None)


def _remedy(folder: Path, split: str) -> str:
    """What makes a data set complete: the first marks where `opencse label` has begun it, else all files."""
    if (folder / "labels.json").is_file():
        command = shlex.join(["opencse", "label", "INDEX", "--out", str(folder)])
        return f"mark a text that answers a {split} query first: {command}"
    return (
        f"BEIR's layout has {CORPUS}, {QUERIES} and {QRELS}/{split}.tsv, with a score above 0 for each right document"
    )


def _require(folder: Path, name: str, remedy: str) -> Path:
    path = _find(folder, name)
    if path is None:
        entries = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
        raise UserError(f"{folder / name}: no such file; in that folder: {', '.join(entries) or 'nothing'}; {remedy}")
    return path


def _read_texts(path: Path, bodies: dict[str, str] | None = None) -> dict[str, str]:
    """Reads the text of each id, in the file's order, without white space around it.

    Args:
        path: of the file.
        bodies: of documents, which may have a title before the text; receives the texts alone.
    """
    texts: dict[str, str] = {}
    for number, record in read_objects(path):
        where = f"{path}, line {number}"
        key = _field(record, "_id", where).strip()
        if not key:
            raise UserError(f"{where}: the _id is empty; give every line its own")
        if key in texts:
            raise UserError(f"{where}: the _id {key[:40]!r} occurs twice; give every line its own")
        text = _field(record, "text", where)
        if bodies is not None and record.get("title") is not None:
            bodies[key] = text.strip()
            text = f"{_field(record, 'title', where)} {text}"
        if bodies is None and not text.strip():
            raise UserError(f"{where}: the query is empty; fill it or drop the line")
        texts[key] = text.strip()
    if not texts:
        raise UserError(f"{path}: blank lines only; one JSON object per line is expected")
    return texts


def _field(record: dict[str, Any], name: str, where: str) -> str:
    if name not in record:
        keys = ", ".join(str(key)[:40] for key in record) or "none"
        raise UserError(f"{where}: no {name!r}; keys there: {keys}")
    value = record[name]
    if name == "_id" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return require_text(value, repr(name), where)


HEADER = "query-id<TAB>corpus-id<TAB>score"
_COLUMNS = (("query", "qid"), ("corpus", "doc", "passage", "pid"), ("score", "rel", "label", "grade"))
"""Words that a header has in the name of each column."""


def read_judgements(
    path: Path, queries: Collection[str], documents: Collection[str], names: tuple[str, str]
) -> tuple[dict[str, dict[str, int]], dict[str, list[int]], tuple[str, ...]]:
    """Reads a file of judgements, and checks their ids against the known ones.

    Args:
        path: lines of query id, document id and relevance with tabs between, after a header or without one; or TREC's
            form with a second column that is not read. ``.gz``, ``.xz``, ``.bz2`` may follow.
        queries: ids of the queries.
        documents: ids of the documents.
        names: files of the queries and of the documents, for messages.

    Returns:
        The relevance by query and document; by query the relevance of documents that are not in the corpus; and the
        ids that were judged but are unknown, one sentence each.

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
    return levels, {key: list(levels_of.values()) for key, levels_of in missing.items()}, tuple(notes)


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
