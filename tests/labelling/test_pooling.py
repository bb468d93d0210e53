"""The texts to be judged: those of each kind of search, merged so that none is favoured."""

from __future__ import annotations

from collections import Counter

from opencse.labelling.pooling import SYSTEMS, interleaved, search_all
from opencse.modules.prompts import Role
from opencse.search.index import Index


def test_three_kinds_of_search(water: Index) -> None:
    queries = ["water number 3", "zzz unknown"]
    rankings = search_all(water, queries, 5, water.encode(queries, Role.QUERY))
    assert len(rankings) == 2
    for text, ranking in zip(queries, rankings, strict=True):
        assert tuple(ranking.ids) == SYSTEMS
        assert ranking.ids["vectors"] == [hit.id for hit in water.search([text], 5)[0]]
        assert ranking.ids["hybrid"] == [hit.id for hit in water.search([text], 5, hybrid=True)[0]]
        assert {one for ids in ranking.ids.values() for one in ids} == set(ranking.hits)
    assert rankings[0].ids["BM25"][0] == "w3"
    assert rankings[1].ids["BM25"] == []
    assert search_all(water, [], 5, water.encode([], Role.QUERY)) == []


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


def test_texts_of_several_rankings_are_shown_once() -> None:
    assert sorted(interleaved({"a": ["x", "y"], "b": ["y", "x", "z"], "c": []}, 1)) == ["x", "y", "z"]
    assert interleaved({"a": [], "b": []}, 1) == []
