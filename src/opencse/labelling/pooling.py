"""Finds the texts to be judged for a query: the first hits of one or several indexes by each kind of search."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from opencse.errors import UserError
from opencse.labelling.documents import read_documents
from opencse.modules.prompts import Role
from opencse.numerals import number_of
from opencse.progress import Progress
from opencse.search.index import Index
from opencse.search.result import Hit, SearchResult
from opencse.search.snapshots import Snapshot

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
    index the searches are ``vectors``, ``BM25`` and ``hybrid``. With several, vectors and hybrid search are those of
    each index, ``vectors of NAME``; BM25 is that of the first, since it depends on the texts alone.

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
        progress.start("comparing the texts", snapshot.count_documents())
        for document in read_documents(snapshot):
            digest = hashlib.sha256(f"{document.id}\0{document.digest}".encode()).digest()
            combined = (combined + int.from_bytes(digest, "big")) % 2**256
            count += 1
            if count % 2_000 == 0:
                progress.advance(count)
        progress.advance(count)
        progress.finish()
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
