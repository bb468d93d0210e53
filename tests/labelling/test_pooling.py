"""The texts to be judged: those of each kind of search, merged so that none is favoured."""

from __future__ import annotations

from collections import Counter

import pytest

from opencse.errors import UserError
from opencse.labelling.pooling import SYSTEMS, PooledIndexes, interleaved
from opencse.progress import Silent
from opencse.search.index import Index
from opencse.search.rows import IndexRow


def test_three_kinds_of_search(water: Index) -> None:
    pooled = PooledIndexes({"index": water})
    queries = ["water number 3", "zzz unknown"]
    rankings = pooled.search(queries, 5)
    assert len(rankings) == 2
    for text, ranking in zip(queries, rankings, strict=True):
        assert tuple(ranking.ids) == SYSTEMS
        assert ranking.ids["vectors"] == [hit.id for hit in water.search([text], 5)[0]]
        assert ranking.ids["hybrid"] == [hit.id for hit in water.search([text], 5, hybrid=True)[0]]
        assert {one for ids in ranking.ids.values() for one in ids} == set(ranking.hits)
    assert rankings[0].ids["BM25"][0] == "w3"
    assert rankings[1].ids["BM25"] == []
    assert pooled.search([], 5) == []


def test_searches_of_two_indexes_are_those_of_each(water: Index, reversed_water: Index) -> None:
    pooled = PooledIndexes({"a": water, "b": reversed_water})
    (ranking,) = pooled.search(["water number 3"], 5)
    assert list(ranking.ids) == ["vectors of a", "vectors of b", "BM25", "hybrid of a", "hybrid of b"]
    for name, index in (("a", water), ("b", reversed_water)):
        assert ranking.ids[f"vectors of {name}"] == [hit.id for hit in index.search(["water number 3"], 5)[0]]
        by_both = index.search(["water number 3"], 5, hybrid=True)[0]
        assert ranking.ids[f"hybrid of {name}"] == [hit.id for hit in by_both]
    assert ranking.ids["vectors of a"] != ranking.ids["vectors of b"]
    assert set(ranking.hits) == {one for ids in ranking.ids.values() for one in ids}
    pooled.require_same_texts(Silent())
    before = pooled.stamp
    reversed_water.delete(["w3"])
    assert pooled.stamp != before
    with pytest.raises(UserError, match=r"a \(30 texts\) and b \(29 texts\) are not indexes of the same texts"):
        pooled.require_same_texts(Silent())
    reversed_water.add([IndexRow("Water number 3 is warm.", "w3")])
    with pytest.raises(UserError, match="not indexes of the same texts"):
        pooled.require_same_texts(Silent())


def test_interleaving_favours_no_ranking() -> None:
    rankings = {"a": [f"a{i}" for i in range(5)], "b": [f"b{i}" for i in range(5)], "c": [f"c{i}" for i in range(5)]}
    first: Counter[str] = Counter()
    for seed in range(300):
        merged = interleaved(rankings, seed)
        assert sorted(merged) == sorted(one for ids in rankings.values() for one in ids)
        for start in range(0, 15, 3):  # in each round one of each
            assert sorted(one[0] for one in merged[start : start + 3]) == ["a", "b", "c"]
            assert {one[1] for one in merged[start : start + 3]} == {str(start // 3)}
        first[merged[0][0]] += 1
    assert min(first.values()) > 70
    assert interleaved(rankings, 7) == interleaved(rankings, 7)
