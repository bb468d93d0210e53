"""The documents of an index, and the hits of several indexes and searches, which are judged together."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from opencse.errors import UserError
from opencse.modules.prompts import Role
from opencse.numerals import number_of
from opencse.progress import Counted, Progress
from opencse.search.database import StoredRow
from opencse.search.index import Index
from opencse.search.result import Hit, SearchResult
from opencse.search.rows import exported_id
from opencse.search.snapshots import Snapshot

LONGEST = 1_500_000
"""Characters of a document that are written; readers of data sets accept lines of 10 million."""
_CHUNK = 2_000
"""Documents that are read at a time."""
_LONGEST_TITLE = 200
_LINE_ENDS = {ord("\x85"): "\\u0085", ord("\u2028"): "\\u2028", ord("\u2029"): "\\u2029"}
QUERY_PREFIX = "query-"


@dataclass(frozen=True)
class IndexedDocument:
    """A document of the index with all of its passages.

    Attributes:
        id: the id of the document.
        text: all of it.
        metadata: by column, of its first passage.
    """

    id: str
    text: str
    metadata: dict[str, object]

    @property
    def digest(self) -> str:
        """A hash of the text without its spaces, which an index changes where it splits the text into passages."""
        return hashlib.sha256("".join(self.text.split()).encode()).hexdigest()[:16]

    @property
    def title(self) -> str:
        """The first line, where it is short and more follows; else empty."""
        first, _, rest = self.text.partition("\n")
        return first.strip() if rest.strip() and len(first) <= _LONGEST_TITLE else ""


@dataclass(frozen=True)
class CorpusSurvey:
    """What was noticed while the documents were written.

    Attributes:
        documents: number of documents.
        shortened: number of documents that were too long to be written completely.
        query_prefix: with which the id of no document begins.
        digests: hash of each document that was looked for, by id.
        ids: id of each document that was looked for, by hash; the first one of equal documents.
    """

    documents: int
    shortened: int
    query_prefix: str
    digests: dict[str, str]
    ids: dict[str, str]


def documents_with_ids(snapshot: Snapshot, ids: Sequence[str]) -> dict[str, IndexedDocument]:
    """Reads documents by id; ids that do not exist are left out."""
    columns, overlap = list(snapshot.manifest.columns), snapshot.manifest.overlap > 0
    return {
        name: IndexedDocument(name, joined_passages(rows, overlap), dict(zip(columns, rows[0].values, strict=True)))
        for name, rows in snapshot.rows_by_id(ids).items()
    }


def joined_passages(rows: Sequence[StoredRow], overlap: bool) -> str:
    """The text of a document: its passages in their order, without what two neighbours share.

    Args:
        rows: the passages.
        overlap: whether a passage may begin with the sentences that the one before ends with.
    """
    passages = [row.text for row in sorted(rows, key=lambda row: row.part)]
    parts = passages[:1]
    for before, passage in pairwise(passages):
        parts.append(passage[_shared(before, passage) :].strip() if overlap else passage)
    return " ".join(part for part in parts if part)


def _shared(before: str, passage: str) -> int:
    """The number of characters with which one passage ends and the next one begins, at the end of a word."""
    longest = min(len(before), len(passage))
    ends = (n for n in range(longest, 0, -1) if passage[n : n + 1] in ("", " ") and before.endswith(passage[:n]))
    return next(ends, 0)


def json_line(value: dict[str, str]) -> str:
    """An object as one line of JSON, which no reader splits at other characters than its end."""
    return json.dumps(value, ensure_ascii=False).translate(_LINE_ENDS) + "\n"


def write_corpus(
    snapshot: Snapshot, path: Path, ids: Collection[str], digests: Collection[str], progress: Progress
) -> CorpusSurvey:
    """Writes every document of an index in BEIR's form: one object with ``_id`` and ``text`` per line.

    Args:
        snapshot: the snapshot of the index.
        path: file to write.
        ids: the ids of documents whose hash is returned.
        digests: hashes of documents whose id is returned.
        progress: shows the progress.

    Raises:
        UserError: if the index is empty.
    """
    total = snapshot.count_documents()
    if not total:
        raise UserError(f"{snapshot.folder}: the index is empty; add texts to it (opencse index add)")
    looked_for, hashes = set(ids), set(digests)
    digest_of: dict[str, str] = {}
    id_of: dict[str, str] = {}
    like_queries: list[str] = []
    shortened = 0
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        for document in read_documents(snapshot, progress, "documents"):
            name = exported_id(document.id)
            stream.write(json_line({"_id": name, "text": document.text[:LONGEST]}))
            shortened += len(document.text) > LONGEST
            if name.startswith(QUERY_PREFIX):
                like_queries.append(name)
            if looked_for:
                digest = document.digest
                if document.id in looked_for:
                    digest_of[document.id] = digest
                if digest in hashes:
                    id_of.setdefault(digest, document.id)
    prefix = QUERY_PREFIX
    while any(name.startswith(prefix) for name in like_queries):
        prefix += QUERY_PREFIX
    return CorpusSurvey(total, shortened, prefix, digest_of, id_of)


def read_documents(snapshot: Snapshot, progress: Progress, title: str) -> Iterator[IndexedDocument]:
    """Reads all documents, in the order of their first rows; without metadata. A bar called ``title`` counts them."""
    written: set[str] = set()
    count, total, done = Counted(progress, title), snapshot.count_documents(), 0
    for rows in _chunks(snapshot):
        if snapshot.manifest.passages:  # a document's passages may be in several chunks
            new = [name for name in dict.fromkeys(row.id for row in rows) if name not in written]
            written.update(new)
            documents = [*documents_with_ids(snapshot, new).values()]
        else:
            documents = [IndexedDocument(row.id, row.text, {}) for row in rows]
        yield from documents
        done += len(documents)
        count(done, total)


def _chunks(snapshot: Snapshot) -> Iterator[list[StoredRow]]:
    last = -1
    while rows := snapshot.select("place > ?", [last], f"LIMIT {_CHUNK}"):
        yield rows
        last = rows[-1].position


VECTORS, KEYWORDS, HYBRID = "vectors", "BM25", "hybrid"
SYSTEMS = (VECTORS, KEYWORDS, HYBRID)
"""The kinds of search whose hits are judged."""


@dataclass(frozen=True)
class Rankings:
    """The first hits of a query by each search.

    Attributes:
        ids: by search, the best first.
        hits: each text that was found, by id.
    """

    ids: Mapping[str, list[str]]
    hits: Mapping[str, Hit]


class PooledIndexes:
    """Indexes of the same texts by different models, whose hits are judged together.

    A model is compared fairly only if its hits were judged like the others' (pooling, as in TREC). With one
    index the searches are ``vectors``, ``BM25`` and ``hybrid``. With several, each index has vectors and hybrid
    search of its own, ``vectors of NAME``; BM25 is of the first index, since it depends on the texts alone.

    Args:
        indexes: by name; the first one holds the texts that are shown.
    """

    def __init__(self, indexes: Mapping[str, Index]) -> None:
        self._indexes = dict(indexes)
        self.first = next(iter(self._indexes.values()))

    @property
    def indexes(self) -> list[Index]:
        """All of them, the first one first."""
        return list(self._indexes.values())

    @property
    def stamp(self) -> str:
        """A text that changes with every change of one of the indexes."""
        return " ".join(index.stamp for index in self._indexes.values())

    @property
    def hybrid_weights(self) -> list[float]:
        """The weight of the vectors in the hybrid search of each index."""
        return [index.hybrid_weight.value for index in self._indexes.values()]

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """The first index at one moment, for the block; calls inside the block see all indexes at that moment."""
        with ExitStack() as stack:
            snapshots = [stack.enter_context(index.snapshot()) for index in self._indexes.values()]
            yield snapshots[0]

    def search(self, queries: Sequence[str], k: int) -> list[Rankings]:
        """Searches for each query by vectors, by keywords alone, and by both as a hybrid search does.

        Args:
            queries: n texts.
            k: number of hits of each search.
        """
        if not queries:
            return []
        by_kind: dict[str, dict[str, SearchResult]] = {kind: {} for kind in SYSTEMS}
        with self.snapshot():
            for name, index in self._indexes.items():
                vectors = index.encode(queries, Role.QUERY)
                by_kind[VECTORS][self._system(VECTORS, name)] = index.search(queries, k, vectors=vectors)
                if index is self.first:
                    by_kind[KEYWORDS][KEYWORDS] = index.search(
                        queries, k, hybrid=True, hybrid_weight=0.0, vectors=vectors
                    )
                by_kind[HYBRID][self._system(HYBRID, name)] = index.search(queries, k, hybrid=True, vectors=vectors)
        results = {system: result for of_kind in by_kind.values() for system, result in of_kind.items()}
        rankings = []
        for number in range(len(queries)):
            hits: dict[str, Hit] = {}
            ids: dict[str, list[str]] = {}
            for system, result in results.items():
                ranked = [hit for hit in result[number] if system != KEYWORDS or hit.score > 0]  # shares a word
                ids[system] = [hit.id for hit in ranked]
                for hit in ranked:
                    hits.setdefault(hit.id, hit)
            rankings.append(Rankings(ids, hits))
        return rankings

    def require_same_texts(self, progress: Progress) -> None:
        """Refuses indexes of different texts, since a text that one of them lacks could not be found by it.

        Raises:
            UserError: naming the two indexes.
        """
        if len(self._indexes) == 1:
            return
        (name, first), *others = ((name, _fingerprint(index, progress)) for name, index in self._indexes.items())
        for other, fingerprint in others:
            if fingerprint != first:
                raise UserError(
                    f"{name} ({number_of(first[0], 'text')}) and {other} ({number_of(fingerprint[0], 'text')}) are not "
                    "indexes of the same texts and ids; build them from the same files"
                )

    def _system(self, kind: str, name: str) -> str:
        return kind if len(self._indexes) == 1 else f"{kind} of {name}"


def _fingerprint(index: Index, progress: Progress) -> tuple[int, int]:
    """The number of documents, and a hash of their ids and texts that does not depend on their order."""
    count = combined = 0
    with index.snapshot() as snapshot:
        for document in read_documents(snapshot, progress, "comparing the texts"):
            digest = hashlib.sha256(f"{document.id}\0{document.digest}".encode()).digest()
            combined = (combined + int.from_bytes(digest, "big")) % 2**256
            count += 1
    return count, combined


def interleaved(rankings: Mapping[str, Sequence[str]], seed: int) -> list[str]:
    """Merges rankings so that none is favoured (team-draft interleaving, Radlinski et al. 2008).

    In each round every ranking adds its best text that is not in the list yet; the order within a round is random.

    Example:
        >>> interleaved({"vectors": ["a", "b"], "BM25": ["c", "a"]}, seed=1)
        ['c', 'a', 'b']

    Args:
        rankings: ids by name, the best first.
        seed: the seed of the order within rounds.
    """
    source = random.Random(seed)
    merged: dict[str, None] = {}
    while any(text_id not in merged for ids in rankings.values() for text_id in ids):
        for name in source.sample(sorted(rankings), len(rankings)):
            best = next((text_id for text_id in rankings[name] if text_id not in merged), None)
            if best is not None:
                merged[best] = None
    return list(merged)
