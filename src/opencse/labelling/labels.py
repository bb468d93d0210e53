"""Queries, the texts shown for each, and their marks; and the folder that holds them, a data set in BEIR's layout.

Every change makes a new object. ``labels.json`` is written first and completely; the other files follow from it. Where
a kill left them behind it, they are written again when the folder is opened, closed or read as a data set. It records
the hashes of the files, so that a file that was made or changed by anything else is recognised and never replaced.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Self, TypeVar

from pydantic import Field

from opencse.errors import UserError, shortened
from opencse.files import hash_file, held_lock, made_folder, remove_unfinished, writing
from opencse.files import write_text as write_atomically
from opencse.labelling.pooling import json_line
from opencse.outputs import LOCK, foreign_files_message, names_in
from opencse.records import read_record
from opencse.search.rows import exported_id
from opencse.settings import Settings
from opencse.text.scripts import folded, is_unicode

TARGET = 20
"""Queries to aim for."""
Level = Literal[0, 1, 2]
"""How well a text answers a query: 2 right, 1 partly, 0 not."""
SplitName = Literal["dev", "test"]


class PooledText(Settings):
    """A text of the index that was shown for a query.

    Attributes:
        id: the id of the text, or of the document that it is a passage of.
        digest: hash of the document's text when it was shown.
        ranks: rank from 1 by each kind of search that found it: ``vectors``, ``BM25``, ``hybrid``.
        level: the mark; None: not marked.
        is_current: whether the index still has this text; the mark of another one is not used.
    """

    id: str
    digest: str
    ranks: dict[str, int]
    level: Level | None = None
    is_current: bool = True

    @property
    def is_relevant(self) -> bool:
        """Whether the text is marked as right or partly right."""
        return self.is_current and bool(self.level)


class LabelledQuery(Settings):
    """A query and the texts that were shown for it.

    Attributes:
        number: from 1; never used again.
        text: the text of the query.
        finished: whether the person has looked at all of the texts, so that those without a mark count as not right.
        pool: the texts in the order in which they were shown.
    """

    number: int = Field(ge=1)
    text: str
    finished: bool = False
    pool: tuple[PooledText, ...] = ()

    def levels(self) -> dict[str, int]:
        """The relevance of each judged text by id; of a finished query all texts that were shown are judged."""
        judged = (one for one in self.pool if one.is_current and (self.finished or one.level is not None))
        return {one.id: one.level or 0 for one in judged}

    def count(self, level: Level) -> int:
        """The number of texts with a mark."""
        return sum(one.is_current and one.level == level for one in self.pool)

    @property
    def is_answered(self) -> bool:
        """Whether a text is marked as right or partly right."""
        return any(one.is_relevant for one in self.pool)


class CorpusState(Settings):
    """The documents that were written for the queries to be searched in.

    Attributes:
        stamp: the stamp of the index at that moment.
        documents: number of documents.
        query_prefix: with which the id of no document begins.
    """

    stamp: str
    documents: int
    query_prefix: str


class Labels(Settings):
    """All queries of a folder, and what is known about its files.

    Example:
        >>> labels, number = Labels().with_query("how do I reset the valve")
        >>> labels = labels.with_pool(number, [PooledText(id="d7", digest="", ranks={"BM25": 1})])
        >>> labels.marked(number, "d7", 2).query(number).levels()
        {'d7': 2}

    Attributes:
        format: tells the file from others.
        version: the version of the format.
        split: share of the queries that are dev queries; None: all are test queries.
        next_number: the number of the next query.
        queries: in the order in which they were typed.
        corpus: the documents; None before they are written.
        files: hashes of the content that each file may have: the latest, and the one that was being written.
    """

    format: Literal["opencse labels"] = "opencse labels"
    version: Literal[1] = 1
    split: float | None = Field(None, gt=0, lt=1)
    next_number: int = Field(1, ge=1)
    queries: tuple[LabelledQuery, ...] = ()
    corpus: CorpusState | None = None
    files: dict[str, tuple[str, ...]] = Field(default_factory=dict)

    def query(self, number: int) -> LabelledQuery:
        """The query of a number.

        Raises:
            UserError: if it was deleted.
        """
        for one in self.queries:
            if one.number == number:
                return one
        raise UserError(f"query {number} was deleted, maybe in another tab; load the page again")

    def split_of(self, number: int) -> SplitName:
        """Whether a query is a dev or a test query; it stays one when others are deleted."""
        if self.split is None:
            return "test"
        is_dev = math.floor(number * self.split + 1e-9) > math.floor((number - 1) * self.split + 1e-9)
        return "dev" if is_dev else "test"

    def number_of(self, text: str) -> int | None:
        """The number of the query with a text, whatever its case and spaces; None if there is none."""
        same = folded(text)
        return next((one.number for one in self.queries if folded(one.text) == same), None)

    def with_query(self, text: str) -> tuple[Self, int]:
        """Adds a query; returns its number too. A query that exists is not added again.

        Raises:
            UserError: for a text that is blank or too long, or too many queries.
        """
        query = checked_query(text)
        known = self.number_of(query)
        if known is not None:
            return self, known
        added = LabelledQuery(number=self.next_number, text=query)
        changes = {"queries": (*self.queries, added), "next_number": self.next_number + 1}
        return self.model_copy(update=changes), added.number

    def with_text(self, number: int, text: str) -> Self:
        """Changes the text of a query; its marks stay.

        Raises:
            UserError: for a text that is blank or another query's.
        """
        query = checked_query(text)
        known = self.number_of(query)
        if known not in (None, number):
            raise UserError(f"query {known} has this text already; delete one of the two")
        return self._with(self.query(number), text=query)

    def without(self, number: int) -> Self:
        """Deletes a query with its marks."""
        deleted = self.query(number)
        return self.model_copy(update={"queries": tuple(one for one in self.queries if one is not deleted)})

    def with_pool(self, number: int, pool: Sequence[PooledText]) -> Self:
        """Replaces the texts that are shown for a query."""
        return self._with(self.query(number), pool=tuple(pool))

    def marked(self, number: int, text_id: str, level: Level | None, digest: str | None = None) -> Self:
        """Marks a text for a query; None takes the mark back.

        Args:
            number: the number of the query.
            text_id: the id of the text.
            level: how well it answers the query.
            digest: hash of the text that was marked; None: as before.

        Raises:
            UserError: if the text is not one of those shown for the query.
        """
        query = self.query(number)
        if all(one.id != text_id for one in query.pool):
            raise UserError(f"text {shortened(text_id)!r} is not shown for query {number}; load the page again")
        changes: dict[str, object] = {"level": level}
        if digest is not None:
            changes |= {"digest": digest, "is_current": True}
        pool = tuple(one.model_copy(update=changes) if one.id == text_id else one for one in query.pool)
        return self._with(query, pool=pool)

    def with_finished(self, number: int, finished: bool) -> Self:
        """Records whether all texts of a query were looked at."""
        return self._with(self.query(number), finished=finished)

    @property
    def marked_texts(self) -> list[PooledText]:
        """The texts with a mark, once for each query."""
        return [one for query in self.queries for one in query.pool if one.level is not None]

    @property
    def answered(self) -> list[LabelledQuery]:
        """The queries with a text that is right or partly right."""
        return [one for one in self.queries if one.is_answered]

    def _with(self, query: LabelledQuery, **changes: object) -> Self:
        changed = query.model_copy(update=changes)
        return self.model_copy(update={"queries": tuple(changed if one is query else one for one in self.queries)})


def checked_query(text: str) -> str:
    """The text of a query in one line.

    Raises:
        UserError: for a text that is blank, or holds half a surrogate pair.
    """
    query = " ".join(text.split())
    if not query or not any(character.isalnum() for character in query):
        raise UserError("the query has no letter or digit; type what a user would search for")
    if not is_unicode(query) or "\0" in query:
        raise UserError("the query holds characters that are not text; type it again")
    return query


def ranks_by_text(rankings: Mapping[str, Sequence[str]]) -> dict[str, dict[str, int]]:
    """The rank of each text, from 1, in each ranking that it is in.

    Example:
        >>> ranks_by_text({"vectors": ["a", "b"], "BM25": ["b"]})
        {'a': {'vectors': 1}, 'b': {'vectors': 2, 'BM25': 1}}
    """
    ranks: dict[str, dict[str, int]] = {}
    for name, ids in rankings.items():
        for rank, text_id in enumerate(ids, start=1):
            ranks.setdefault(text_id, {})[name] = rank
    return ranks


T = TypeVar("T")
LABELS, CORPUS, QUERIES = "labels.json", "corpus.jsonl", "queries.jsonl"
QRELS: dict[SplitName, str] = {"test": "qrels/test.tsv", "dev": "qrels/dev.tsv"}
_SMALL = (QUERIES, *QRELS.values())
_HEADER = "query-id\tcorpus-id\tscore\n"


class LabelFolder:
    """The files of labels. One process at a time may write them; see `opened`.

    Attributes:
        path: the path of the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def opened(self) -> Iterator[Labels]:
        """Gives the labels of the folder for the block, in which no other process can change them.

        Raises:
            UserError: if the folder holds files of anything else, or another process has it open.
        """
        self._require_ours()
        with made_folder(self.path), held_lock(self.path / LOCK, "another process is labelling there; stop it first"):
            for folder in (self.path, self.path / "qrels"):
                remove_unfinished(folder)
            labels = self.read()
            if self._is_behind(labels, CORPUS):  # only the index can write it again
                labels = labels.model_copy(update={"corpus": None})
            yield self._caught_up(labels)
            self._caught_up(self.read())

    def read(self) -> Labels:
        """The labels that were saved; none if the folder is new.

        Raises:
            UserError: for a file of another program, or a damaged one.
        """
        file = self.path / LABELS
        if not file.exists():
            self._require_ours()
            return Labels()
        return read_record(Labels, file)

    def catch_up(self) -> None:
        """Writes queries and judgements again where a kill left them behind the labels; for readers of the data set.

        A folder of anything else is left alone.

        Raises:
            UserError: if the documents were left behind, which only the index has, or another process is labelling.
        """
        try:
            labels = self.read()
        except UserError:
            return
        if self._is_behind(labels, CORPUS):
            raise UserError(
                f"{self.path}: opencse label was stopped while it wrote the documents; start it again with this --out"
            )
        if any(self._is_behind(labels, name) for name in _SMALL):
            with self.opened():
                pass

    def save(self, labels: Labels) -> Labels:
        """Writes the labels, then queries and judgements; returns the labels with the hashes of these files.

        Raises:
            UserError: if one of the files was changed by anything else; then nothing is written.
            OSError: if they cannot be written.
        """
        contents = self._contents(labels)
        files = dict(labels.files)
        for name in _SMALL:
            before = self._require_known(name, files.get(name, ()))
            text = contents.get(name)
            after = None if text is None else hashlib.sha256(text.encode()).hexdigest()
            files[name] = tuple(dict.fromkeys(one for one in (after, before) if one is not None))
        saved = labels.model_copy(update={"files": files})
        self._write_labels(saved)
        for name in _SMALL:
            self._write_small(self.path / name, contents.get(name))
        return saved

    def write_corpus(self, labels: Labels, write: Callable[[Path], T], changed: Callable[[T], Labels]) -> Labels:
        """Replaces the file of the documents and saves the labels that belong to it; returns them.

        Args:
            labels: as they are.
            write: writes the documents to a path.
            changed: makes the new labels of its result.

        Raises:
            UserError: if the file was changed by anything else, or cannot be written.
        """
        before = self._require_known(CORPUS, labels.files.get(CORPUS, ()))
        with writing(self.path / CORPUS) as unfinished:
            result = changed(write(unfinished))
            known = tuple(dict.fromkeys(one for one in (hash_file(unfinished), before) if one is not None))
            recorded = result.model_copy(update={"files": {**result.files, CORPUS: known}})
            self._write_labels(recorded)
        return self.save(recorded)

    def has_corpus(self) -> bool:
        """Whether the file of the documents exists."""
        return (self.path / CORPUS).is_file()

    def _contents(self, labels: Labels) -> dict[str, str]:
        """The text of each small file; without those that would hold nothing."""
        prefix = "query-" if labels.corpus is None else labels.corpus.query_prefix
        name_of = {query.number: f"{prefix}{query.number}" for query in labels.queries}
        lines: dict[SplitName, list[str]] = {"test": [], "dev": []}
        for query in labels.queries:
            lines[labels.split_of(query.number)] += [
                f"{name_of[query.number]}\t{exported_id(text_id)}\t{level}\n"
                for text_id, level in query.levels().items()
            ]
        contents = {QRELS[split]: _HEADER + "".join(judged) for split, judged in lines.items() if judged}
        if labels.queries:
            texts = [json_line({"_id": name_of[query.number], "text": query.text}) for query in labels.queries]
            contents[QUERIES] = "".join(texts)
        return contents

    def _write_labels(self, labels: Labels) -> None:
        text = json.dumps(labels.model_dump(mode="json"), ensure_ascii=False, indent=1) + "\n"
        write_atomically(self.path / LABELS, text)

    def _write_small(self, path: Path, text: str | None) -> None:
        if text is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(exist_ok=True)
            write_atomically(path, text)

    def _caught_up(self, labels: Labels) -> Labels:
        is_behind = any(self._is_behind(labels, name) for name in _SMALL)
        return self.save(labels) if is_behind else labels

    def _is_behind(self, labels: Labels, name: str) -> bool:
        """Whether a file is missing or as it was before the last change; not where anything else changed it."""
        path, known = self.path / name, labels.files.get(name, ())
        now = hash_file(path) if path.is_file() else None
        if name == CORPUS:
            return now in known[1:]
        text = self._contents(labels).get(name)
        latest = None if text is None else hashlib.sha256(text.encode()).hexdigest()
        return now != latest and (now is None or now in known)

    def _require_known(self, name: str, hashes: tuple[str, ...]) -> str | None:
        """The hash of a file; None if it does not exist.

        Raises:
            UserError: if it is not as it was written.
        """
        path = self.path / name
        if not path.exists() and not path.is_symlink():
            return None
        if path.is_symlink() or not path.is_file() or hash_file(path) not in hashes:
            raise UserError(
                f"{path}: was changed or made by another program, and is not replaced; move it to another folder, or "
                "choose another --out"
            )
        return hash_file(path)

    def _require_ours(self) -> None:
        names = names_in(self.path)
        if names and LABELS not in names:
            raise UserError(foreign_files_message(self.path, names))
