"""Re-ranked hits of an index against sentence-transformers' CrossEncoder and a plain loop."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import opencse as library
from helpers import Run, accepted, json_in
from opencse.search.index import Index
from search_texts import TEXTS

QUERIES = ["a dog runs", "music on a stage"]


@pytest.mark.slow
@pytest.mark.parametrize(("k", "depth", "hybrid"), [(3, 8, False), (10, 4, False), (3, 8, True)])
def test_hits_are_ordered_by_the_cross_encoder(
    index: Index, cross_encoder: Path, k: int, depth: int, hybrid: bool
) -> None:
    from sentence_transformers import CrossEncoder

    reference = CrossEncoder(str(cross_encoder), device="cpu")
    first = library.query_index(index.folder, QUERIES, k=max(k, depth), hybrid=hybrid, device="cpu")
    result = library.query_index(
        index.folder, QUERIES, k=k, hybrid=hybrid, rerank=cross_encoder, rerank_depth=depth, device="cpu"
    )
    changed = 0
    for query, before, after in zip(QUERIES, first, result, strict=True):
        scores = {hit.id: float(reference.predict([(query, hit.text)])[0]) for hit in before}
        expected = sorted(before, key=lambda hit: -scores[hit.id])[:k]
        assert [hit.id for hit in after] == [hit.id for hit in expected]
        assert all(math.isclose(hit.score, scores[hit.id], abs_tol=1e-6) for hit in after)
        assert [hit.text for hit in after] == [TEXTS[int(hit.id[1:])] for hit in after]
        changed += [hit.id for hit in after] != [hit.id for hit in before[:k]]
    assert changed
    assert result.score == "cross-encoder"


def test_a_query_of_the_command_line_is_reranked(
    index: Index, cross_encoder: Path, tmp_path: Path, opencse: Run
) -> None:
    out = tmp_path / "hits.json"
    query = ["index", "query", str(index.folder), QUERIES[0], "-k", "2", "--json", str(out), "--device", "cpu"]
    printed, _ = accepted(opencse(*query, "--rerank", str(cross_encoder), "--rerank-depth", "6"))
    assert f"{QUERIES[0]} (cross-encoder)" in printed
    expected = library.query_index(index.folder, QUERIES[:1], k=2, rerank=cross_encoder, rerank_depth=6, device="cpu")
    assert [hit["id"] for hit in json_in(out)["queries"][0]["hits"]] == [hit.id for hit in expected[0]]
    code, _, error = opencse(*query, "--overwrite", "--rerank", "opencse-mini")
    assert code == 2
    assert "is no cross-encoder" in error
    assert error.count("\n") == 1
