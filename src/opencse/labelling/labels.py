"""Queries, the texts that were shown for each, and their marks. Every change makes a new object."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, Self

from pydantic import Field

from opencse.errors import UserError, shortened
from opencse.numerals import number_of
from opencse.settings import Settings
from opencse.text.scripts import folded, is_unicode

TARGET = 20
"""Queries to aim for."""
MOST_QUERIES = 2_000
LONGEST_QUERY = 4_000
"""Characters of a query."""
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
        if len(self.queries) >= MOST_QUERIES:
            raise UserError(f"there are {number_of(len(self.queries), 'query')}, which is the limit; use another --out")
        added = LabelledQuery(number=self.next_number, text=query)
        changes = {"queries": (*self.queries, added), "next_number": self.next_number + 1}
        return self.model_copy(update=changes), added.number

    def with_text(self, number: int, text: str) -> Self:
        """Changes the text of a query; its marks stay.

        Raises:
            UserError: for a text that is blank, too long or another query's.
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
        UserError: for a text that is blank or too long, or half a surrogate pair.
    """
    query = " ".join(text.split())
    if not query or not any(character.isalnum() for character in query):
        raise UserError("the query has no letter or digit; type what a user would search for")
    if len(query) > LONGEST_QUERY:
        raise UserError(f"the query has {len(query):,} characters; type at most {LONGEST_QUERY:,}")
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
