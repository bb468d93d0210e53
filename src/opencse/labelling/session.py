"""Judging queries on the page: what is shown, marked and saved; and how searches score by the labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from opencse.errors import UserError, reason
from opencse.labelling.labels import CorpusState, LabelFolder, LabelledQuery, Labels, Level, PooledText, ranks_by_text
from opencse.labelling.pooling import (
    CorpusSurvey,
    IndexedDocument,
    PooledIndexes,
    Rankings,
    documents_with_ids,
    interleaved,
    write_corpus,
)
from opencse.numerals import number_of
from opencse.progress import SILENT, Progress
from opencse.ranking import ndcg, reciprocal_rank
from opencse.search.snapshots import Snapshot
from opencse.statistics.difference import Interval
from opencse.statistics.queries import intervals_of_means, paired_queries
from opencse.statistics.seeds import summary

DEPTH = 10
FEWEST = 5
"""Queries from which scores are shown."""
WARNING = (
    "Only texts that one of these searches found were judged. A model whose index is not among them may find other "
    "right texts, and then scores too low; to compare it, label with its index too: "
    "opencse label INDEX INDEX --out FOLDER"
)


@dataclass(frozen=True)
class SystemScore:
    """How one search does, x 100.

    Attributes:
        ndcg_at_10: mean over the queries.
        interval: its 95 % interval over queries (t-distribution), within [0, 100]; None where all values are the same.
        mrr_at_10: mean reciprocal rank of the first text that is right or partly right.
        difference: mean difference of nDCG@10 to the first search (by vectors); None for that search itself.
        difference_interval: its 95 % interval; None where no query differs.
        judged: share of the first 10 hits that were judged.
    """

    ndcg_at_10: float
    interval: Interval | None
    mrr_at_10: float
    difference: float | None
    difference_interval: Interval | None
    judged: float


@dataclass(frozen=True)
class LabelScores:
    """The scores of the labels of a folder.

    Attributes:
        queries: number of queries with a right or partly right text, which the means are over.
        systems: by search: ``vectors``, ``BM25``, ``hybrid``, or ``vectors of NAME`` and so on with several indexes;
            empty with fewer than `FEWEST` queries.
        warning: what the scores cannot show.
    """

    queries: int
    systems: dict[str, SystemScore]
    warning: str = WARNING

    def lines(self) -> list[str]:
        """The scores as lines of text."""
        if not self.systems:
            answered = number_of(self.queries, "query has", "queries have")
            return [f"{answered} a right text; scores are shown from {FEWEST} on"]
        first, width = next(iter(self.systems)), max(map(len, self.systems))
        head = f"{'':{width}}  nDCG@10  {'95 % interval':15}  MRR@10  {'difference':20}  judged of first 10"
        rows = [
            f"{name:{width}}  {one.ndcg_at_10:7.1f}  {_range(one.interval):15}  {one.mrr_at_10:6.1f}  "
            f"{_difference(one):20}  {one.judged:.0%}"
            for name, one in self.systems.items()
        ]
        about = f"{number_of(self.queries, 'query')}, x 100; differences are from {first}"
        return [about, head, *rows, self.warning]


def score(queries: Sequence[LabelledQuery], rankings: Sequence[Rankings]) -> LabelScores:
    """Scores each search by the queries that have a right or partly right text.

    Args:
        queries: n of them.
        rankings: n by the same searches, of at least 10 hits each where the index has as many.
    """
    if len(queries) < FEWEST:
        return LabelScores(len(queries), {})
    values: dict[str, list[float]] = {}
    reciprocal: dict[str, list[float]] = {}
    judged: dict[str, list[bool]] = {}
    for query, ranking in zip(queries, rankings, strict=True):
        relevance = query.levels()
        for name, ids in ranking.ids.items():
            first = ids[:DEPTH]
            levels = [relevance.get(text_id, 0) for text_id in first]
            values.setdefault(name, []).append(100 * ndcg(levels, list(relevance.values()), DEPTH))
            reciprocal.setdefault(name, []).append(100 * reciprocal_rank(levels, DEPTH))
            judged.setdefault(name, []).extend(text_id in relevance for text_id in first)
    return LabelScores(len(queries), {name: _system(name, values, reciprocal, judged) for name in values})


def _system(
    name: str,
    values: Mapping[str, Sequence[float]],
    reciprocal: Mapping[str, Sequence[float]],
    judged: Mapping[str, Sequence[bool]],
) -> SystemScore:
    difference = difference_interval = None
    base = next(iter(values))
    if name != base:
        paired = paired_queries(np.array(values[name]), np.array(values[base]))
        difference, difference_interval = paired.difference, paired.interval
    return SystemScore(
        ndcg_at_10=summary(values[name]).mean,
        interval=intervals_of_means({name: np.array(values[name])})[name],
        mrr_at_10=summary(reciprocal[name]).mean,
        difference=difference,
        difference_interval=difference_interval,
        judged=sum(judged[name]) / max(1, len(judged[name])),
    )


def _range(interval: Interval | None) -> str:
    return "all the same" if interval is None else f"[{interval[0]:.1f}, {interval[1]:.1f}]"


def _difference(score: SystemScore) -> str:
    if score.difference is None:
        return ""
    interval = score.difference_interval
    return f"{score.difference:+.1f}" + ("" if interval is None else f" [{interval[0]:+.1f}, {interval[1]:+.1f}]")


SHOWN = 1_500
"""Characters of a text that are shown at first."""
MOST_SHOWN = 200_000
"""Characters of a document that are shown when all of it is requested."""
_SEVERAL = 5
"""Marked texts of which an index must have one; of fewer, all may have been deleted."""


@dataclass(frozen=True)
class ShownText:
    """A text as it is shown for a query.

    Attributes:
        id: the id of the text, or of its document.
        title: the title of its document; may be empty.
        text: what a search found: the text or its best passage, at most `SHOWN` characters.
        is_part: whether the document has more text.
        metadata: by column.
        level: the mark; None: not marked.
        note: what is special about it; may be empty.
        digest: hash of its document's text; empty if the index does not have it.
    """

    id: str
    title: str
    text: str
    is_part: bool
    metadata: dict[str, object]
    level: Level | None
    note: str
    digest: str = ""


class LabelSession:
    """The labels of a folder together with the indexes whose texts are judged.

    Args:
        indexes: are searched.
        folder: that the labels are saved to.
        labels: the labels of the folder.
        depth: hits of each kind of search that are shown.
        progress: shows what takes long, and receives notes.
    """

    def __init__(
        self,
        indexes: PooledIndexes,
        folder: LabelFolder,
        labels: Labels,
        *,
        depth: int = 10,
        progress: Progress = SILENT,
    ) -> None:
        self._indexes, self._folder, self._depth = indexes, folder, depth
        self._progress = progress
        self._labels = labels
        self._ranked: dict[str, Rankings] = {}
        self._ranked_by: tuple[str, list[float]] | None = None  # the indexes and the weights of their hybrid search
        self.notes: list[str] = []
        self._follow_index()

    @property
    def labels(self) -> Labels:
        """The labels as they were saved last."""
        return self._labels

    @property
    def folder(self) -> Path:
        """The folder that they are saved to."""
        return self._folder.path

    def set_split(self, split: float | None) -> None:
        """Changes the share of the queries that are dev queries."""
        if split != self._labels.split:
            self._save(self._labels.model_copy(update={"split": split}))

    def add_queries(self, texts: Sequence[str]) -> int:
        """Adds queries, none of them twice; returns the number of new ones."""
        labels, before = self._labels, len(self._labels.queries)
        for text in texts:
            labels, _ = labels.with_query(text)
        self._save(labels)
        return len(labels.queries) - before

    def add(self, text: str) -> int:
        """Adds a query, if there is none of this text; returns its number.

        Raises:
            UserError: for a text that is not a query.
        """
        labels, number = self._labels.with_query(text)
        self._save(labels)
        return number

    def edit(self, number: int, text: str) -> None:
        """Changes the text of a query."""
        self._save(self._labels.with_text(number, text).with_finished(number, False))

    def delete(self, number: int) -> None:
        """Deletes a query with its marks."""
        self._save(self._labels.without(number))

    def mark(self, number: int, text_id: str, level: Level | None, digest: str | None = None) -> None:
        """Marks a text for a query; None takes the mark back.

        Args:
            number: the number of the query.
            text_id: the id of the text when it was shown.
            level: how well it answers the query.
            digest: hash of the text that was shown, so that no other one is marked that has its id by now.

        Raises:
            UserError: if the index has this text no longer.
        """
        self._follow_index()
        with self._indexes.snapshot() as snapshot:
            document = documents_with_ids(snapshot, [text_id]).get(text_id)
            if digest and (document is None or document.digest != digest):
                pool = self._labels.query(number).pool
                text_id = next((one.id for one in pool if one.digest == digest and one.is_current), text_id)
                document = documents_with_ids(snapshot, [text_id]).get(text_id)
                if document is not None and document.digest != digest:
                    raise UserError("the index has changed since this text was shown; load the page again")
        labels = self._labels.marked(number, text_id, level)
        if document is not None:
            labels = labels.marked(number, text_id, level, digest=document.digest)
        elif level is not None:
            raise UserError("this text was deleted from the index, so it cannot be marked")
        self._save(labels)

    def finish(self, number: int, finished: bool) -> None:
        """Records whether the person has looked at all texts of a query."""
        self._save(self._labels.with_finished(number, finished))

    def open_query(self, number: int) -> tuple[LabelledQuery, list[ShownText]]:
        """Searches for a query, adds what is found to the texts that are shown for it, and returns all of them.

        Texts that were shown before stay, in their order.
        """
        with self._indexes.snapshot() as snapshot:  # all that follows reads this one snapshot
            self._follow_index()
            query = self._labels.query(number)
            (rankings,) = self._indexes.search([query.text], self._depth)
            query, documents = _with_hits(query, rankings, snapshot)
        self._save(self._labels.with_pool(number, query.pool).with_finished(number, query.finished))
        return query, [_shown(one, documents.get(one.id), rankings) for one in query.pool]

    def add_hits(self) -> int:
        """Adds what is found now to the texts of every finished query, for instance by an index that is new.

        Returns:
            The number of queries with texts to be judged, which are no longer finished.
        """
        finished = [query for query in self._labels.queries if query.finished]
        labels = self._labels
        with self._indexes.snapshot() as snapshot:
            rankings = self._indexes.search([query.text for query in finished], self._depth)
            for query, ranking in zip(finished, rankings, strict=True):
                changed, _ = _with_hits(query, ranking, snapshot)
                labels = labels.with_pool(query.number, changed.pool).with_finished(query.number, changed.finished)
        self._save(labels)
        return sum(not labels.query(query.number).finished for query in finished)

    def text_of(self, text_id: str, digest: str | None = None) -> str:
        """All of a document's text, or its first `MOST_SHOWN` characters.

        Raises:
            UserError: if the index does not have it, or another text than the one of ``digest`` has its id by now.
        """
        with self._indexes.snapshot() as snapshot:
            document = documents_with_ids(snapshot, [text_id]).get(text_id)
        if document is None:
            raise UserError("this text was deleted from the index")
        if digest and document.digest != digest:
            raise UserError("the index has changed since this text was shown; load the page again")
        return document.text[:MOST_SHOWN]

    def scores(self) -> LabelScores:
        """Scores the kinds of search by the marks so far."""
        self._follow_index()
        current = (self._indexes.stamp, self._indexes.hybrid_weights)
        if current != self._ranked_by:
            self._ranked, self._ranked_by = {}, current
        return score_labels(self._indexes, self._labels, self._ranked)

    def _save(self, labels: Labels) -> None:
        if labels != self._labels:
            with self._saving():
                self._labels = self._folder.save(labels)

    @contextmanager
    def _saving(self) -> Iterator[None]:
        """Raises an error of the system as one that the person can read; then the labels are those on the disk.

        Raises:
            UserError: saying what to do.
        """
        try:
            yield
        except OSError as error:
            with suppress(UserError):
                self._labels = self._folder.read()
            cause = error.strerror or reason(error)
            raise UserError(
                f"{self.folder}: the last change could not be saved ({cause}); make room there, or make the folder "
                "writable, and try again"
            ) from error

    def _follow_index(self) -> None:
        """Writes the documents again, and follows marked texts to their new ids, where the index has changed."""
        state = self._labels.corpus
        with self._indexes.snapshot() as snapshot:
            stamp = self._indexes.stamp
            if state is not None and state.stamp == stamp and self._folder.has_corpus():
                return
            self._indexes.require_same_texts(self._progress)
            pooled = [one for query in self._labels.queries for one in query.pool]
            ids, digests = {one.id for one in pooled}, {one.digest for one in pooled}

            def write(path: Path) -> CorpusSurvey:
                return write_corpus(snapshot, path, ids, digests, self._progress)

            def changed(survey: CorpusSurvey) -> Labels:
                self.notes = _notes_of(survey)
                corpus = CorpusState(stamp=stamp, documents=survey.documents, query_prefix=survey.query_prefix)
                labels = self._labels.model_copy(update={"corpus": corpus})
                for query in labels.queries:
                    labels = labels.with_pool(query.number, followed(query.pool, survey))
                self._require_same_texts(labels)
                return labels

            with self._saving():
                self._labels = self._folder.write_corpus(self._labels, write, changed)

    def _require_same_texts(self, labels: Labels) -> None:
        """Refuses an index that has none of the marked texts, since the labels would be lost to it.

        Raises:
            UserError: if there are several of them.
        """
        marked = labels.marked_texts
        if len(marked) >= _SEVERAL and not any(one.is_current for one in marked):
            raise UserError(
                f"{self.folder}: none of its {number_of(len(marked), 'marked text')} is in this index, so the labels "
                "are of another one; choose another --out"
            )


def followed(pool: Sequence[PooledText], survey: CorpusSurvey) -> list[PooledText]:
    """The texts that were shown for a query, under the ids that the changed index has for them.

    A text keeps its id where the index has the same text there. Otherwise it gets the id that the text has now, if it
    has one; so marks follow their texts where rows were numbered again.
    """
    followed_pool: dict[str, PooledText] = {}
    for one in pool:
        is_same = survey.digests.get(one.id) == one.digest
        new_id = one.id if is_same else survey.ids.get(one.digest, one.id)
        is_current = is_same or one.digest in survey.ids
        before = followed_pool.get(new_id)
        if before is None or (before.level is None and one.level is not None):
            followed_pool[new_id] = one.model_copy(update={"id": new_id, "is_current": is_current})
    return list(followed_pool.values())


def score_labels(indexes: PooledIndexes, labels: Labels, ranked: dict[str, Rankings] | None = None) -> LabelScores:
    """Scores the searches of indexes by labels; marks of texts that they do not have do not count.

    Args:
        indexes: are searched.
        labels: the queries and their marks.
        ranked: rankings of queries by their text, which are not searched for again; new ones are added.

    Raises:
        UserError: if the indexes have none of the marked texts, or different texts.
    """
    marked = labels.marked_texts
    with indexes.snapshot() as snapshot:
        documents = documents_with_ids(snapshot, [one.id for query in labels.queries for one in query.pool])
    for query in labels.queries:
        pool = [one.model_copy(update={"is_current": _is_in(one, documents)}) for one in query.pool]
        labels = labels.with_pool(query.number, pool)
    if marked and not any(one.is_current for one in labels.marked_texts):
        raise UserError(
            f"{indexes.first.folder}: has none of the {len(marked):,} marked texts; the labels are of another index"
        )
    answered = labels.answered
    known = {} if ranked is None else ranked
    new = [query.text for query in answered if query.text not in known]
    if new:
        rankings = indexes.search(new, DEPTH)
        known |= {text: Rankings(one.ids, {}) for text, one in zip(new, rankings, strict=True)}
    return score(answered, [known[query.text] for query in answered])


def _is_in(pooled: PooledText, documents: Mapping[str, IndexedDocument]) -> bool:
    document = documents.get(pooled.id)
    return document is not None and document.digest == pooled.digest


def _with_hits(
    query: LabelledQuery, rankings: Rankings, snapshot: Snapshot
) -> tuple[LabelledQuery, dict[str, IndexedDocument]]:
    """A query with what is found for it now after the texts that were shown before, and the documents of all of them.

    With new texts a finished query is finished no longer. The others have all been looked at, so those without a mark
    become "not right": what is left without one is new.
    """
    before = {one.id: one for one in query.pool}
    new_ids = [text_id for text_id in interleaved(rankings.ids, query.number) if text_id not in before]
    documents = documents_with_ids(snapshot, [*before, *new_ids])
    ranks = ranks_by_text(rankings.ids)
    pool = [
        _pooled(before.get(text_id), text_id, documents.get(text_id), ranks.get(text_id, {}))
        for text_id in (*before, *new_ids)
        if text_id in documents or before[text_id].level is not None  # one that is gone without a mark is dropped
    ]
    if query.finished and new_ids:
        pool = [
            one.model_copy(update={"level": 0}) if one.id in before and one.level is None and one.is_current else one
            for one in pool
        ]
    finished = query.finished and not new_ids
    return query.model_copy(update={"pool": tuple(pool), "finished": finished}), documents


def _pooled(
    before: PooledText | None, text_id: str, document: IndexedDocument | None, ranks: dict[str, int]
) -> PooledText:
    """A text of the pool with its ranks now; a mark stays with the text that was marked."""
    if before is None:
        assert document is not None
        return PooledText(id=text_id, digest=document.digest, ranks=ranks)
    if before.level is None and document is not None:
        return PooledText(id=text_id, digest=document.digest, ranks=ranks or before.ranks)
    return before.model_copy(update={"ranks": ranks or before.ranks})


def _shown(pooled: PooledText, document: IndexedDocument | None, rankings: Rankings) -> ShownText:
    if document is None:
        return ShownText(pooled.id, "", "", False, {}, pooled.level, "this text was deleted from the index")
    hit = rankings.hits.get(pooled.id)
    text, title = document.text if hit is None else hit.text, document.title
    text = text.removeprefix(title).lstrip() or text
    return ShownText(
        pooled.id,
        title,
        text[:SHOWN],
        len(text) > SHOWN or (hit is not None and len(hit.text) < len(document.text)),
        {name: value for name, value in document.metadata.items() if value is not None},
        pooled.level if pooled.is_current else None,
        "" if pooled.is_current else "this text has changed since you marked it; mark it again",
        document.digest,
    )


def _notes_of(survey: CorpusSurvey) -> list[str]:
    if not survey.shortened:
        return []
    documents = number_of(survey.shortened, "document")
    return [f"{documents} of more than 1.5 million characters, of which the beginning was written"]
