"""Finds the texts to be judged for a query: the first hits by vectors, by keywords (BM25) and by both together."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opencse.arrays import Vectors
from opencse.search.index import Index
from opencse.search.result import Hit

SYSTEMS = ("vectors", "BM25", "hybrid")
"""The kinds of search whose hits are judged."""


@dataclass(frozen=True)
class Rankings:
    """The first hits of a query by each kind of search.

    Attributes:
        ids: by kind of search, the best first.
        hits: each text that was found, by id.
    """

    ids: Mapping[str, list[str]]
    hits: Mapping[str, Hit]


def search_all(index: Index, queries: Sequence[str], k: int, vectors: Vectors) -> list[Rankings]:
    """Searches for each query by vectors, by keywords alone, and by both as a hybrid search does.

    Args:
        index: is searched.
        queries: n texts.
        k: number of hits of each kind of search.
        vectors: (n, d) of the queries.
    """
    if not queries:
        return []
    with index.snapshot():
        by_kind = {
            "vectors": index.search(queries, k, vectors=vectors),
            "BM25": index.search(queries, k, hybrid=True, hybrid_weight=0.0, vectors=vectors),
            "hybrid": index.search(queries, k, hybrid=True, vectors=vectors),
        }
    rankings = []
    for number in range(len(queries)):
        hits: dict[str, Hit] = {}
        ids: dict[str, list[str]] = {}
        for kind in SYSTEMS:
            ranked = [hit for hit in by_kind[kind][number] if kind != "BM25" or hit.score > 0]  # shares a word
            ids[kind] = [hit.id for hit in ranked]
            for hit in ranked:
                hits.setdefault(hit.id, hit)
        rankings.append(Rankings(ids, hits))
    return rankings


def interleaved(rankings: Mapping[str, Sequence[str]], seed: int) -> list[str]:
    """Merges rankings so that none is favoured (team-draft interleaving, Radlinski et al. 2008).

    In each round every ranking adds its best text that is not in the list yet; the order within a round is random.

    Example:
        >>> interleaved({"vectors": ["a", "b"], "BM25": ["c", "a"]}, seed=1)
        ['c', 'a', 'b']

    Args:
        rankings: ids by name, the best first.
        seed: of the order within rounds.
    """
    source = random.Random(seed)
    merged: dict[str, None] = {}
    while any(text_id not in merged for ids in rankings.values() for text_id in ids):
        for name in source.sample(sorted(rankings), len(rankings)):
            best = next((text_id for text_id in rankings[name] if text_id not in merged), None)
            if best is not None:
                merged[best] = None
    return list(merged)
