"""The routes of search, similarity, map and page."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.modules.similarity import unit_rows
from opencse.search.index import Index
from opencse.serving.requests import Limits
from serving.conftest import Serve
from serving.harness import short, to

pytestmark = pytest.mark.anyio


async def test_search_matches_brute_force(serve: Serve, offline: SentenceEncoder, sentences: list[str]) -> None:
    corpus = short(sentences, offline)[:120]
    queries = ["a dog in the snow", corpus[7]]
    scores = unit_rows(offline.encode(queries)) @ unit_rows(offline.encode(corpus)).T
    async with to(serve()) as client:
        answer = (await client.post("/search", json={"query": queries, "k": 5})).json()
        for i, found in enumerate(answer["data"]):
            best = np.argsort(-scores[i], kind="stable")[:5]
            assert found["index"] == i
            assert [hit["text"] for hit in found["hits"]] == [corpus[j] for j in best]
            assert np.allclose([hit["score"] for hit in found["hits"]], scores[i][best], atol=1e-5)
        assert answer["data"][1]["hits"][0]["id"] == "s7"
        assert answer["usage"]["prompt_tokens"] > 4

        least = float(np.sort(scores[0])[-3])
        few = await client.post("/search", json={"query": queries[0], "k": 50, "threshold": least - 1e-6})
        assert len(few.json()["data"][0]["hits"]) == 3
        odd = {"id": [f"s{i}" for i in range(1, 120, 2)]}
        for where in ({"half": 1}, {"half": [1]}, {"half": {">=": 0.5, "!=": None}}, {"half": {"!=": [0, None]}}, odd):
            half = (await client.post("/search", json={"query": queries[0], "k": 200, "where": where})).json()
            assert len(half["data"][0]["hits"]) == 60
            assert {hit["metadata"]["half"] for hit in half["data"][0]["hits"]} == {1}


async def test_hybrid_search(serve: Serve, offline: SentenceEncoder, index_folder: Path, sentences: list[str]) -> None:
    queries = [sentences[3].split()[1] + " and " + sentences[90].split()[-1], "a dog in the snow"]
    with Index.open(index_folder, encoder=offline) as index:
        expected = index.search(queries, 6, hybrid=True)
        assert [hit.id for hit in expected[0]] != [hit.id for hit in index.search(queries, 6)[0]]
    async with to(serve()) as client:
        asked = [client.post("/search", json={"query": queries, "k": 6, "hybrid": True}) for _ in range(8)]
        others = [client.post("/v1/embeddings", json={"input": sentences[i : i + 40]}) for i in range(8)]
        answers = await asyncio.gather(*asked, *others)
        for answer in answers[:8]:
            assert [[hit["id"] for hit in found["hits"]] for found in answer.json()["data"]] == [
                [hit.id for hit in hits] for hits in expected
            ]
        refused = await client.post("/search", json={"query": "snow", "hybrid": True, "threshold": 0.1})
        assert refused.status_code == 400


async def test_wrong_searches_are_refused(serve: Serve) -> None:
    values: dict[str, list[object]] = {
        "k": [0, 10**9, "3"],
        "where": [{"nope": 1}, {"half": {"~": 1}}, {"half": 10**30}, []],
        "query": [[], [1], ["snow", " "], ""],
        "threshold": ["high"],
        "model": ["other"],
        "hybrid": [1],
    }
    wrong = [{name: value} for name, those in values.items() for value in those]
    async with to(serve()) as client:
        for one in wrong:
            answer = await client.post("/search", json={"query": "snow", **one})
            assert answer.status_code in (400, 404), one
            assert answer.json()["error"]["message"]


async def test_similarity_is_the_cosine(serve: Serve, offline: SentenceEncoder) -> None:
    texts, others = ["Snow fell.", "It snowed.", "Tea?"], ["A kettle.", "Rain."]
    async with to(serve(limits=Limits(pairs=9))) as client:
        square = (await client.post("/similarity", json={"texts": texts})).json()["matrix"]
        assert np.allclose(square, offline.similarity(texts, texts), atol=1e-5)
        apart = (await client.post("/similarity", json={"texts": texts, "others": others})).json()["matrix"]
        assert np.allclose(apart, offline.similarity(texts, others), atol=1e-5)
        assert (await client.post("/similarity", json={"texts": [*texts, "More."]})).status_code == 400
        blank = await client.post("/similarity", json={"texts": [texts[0], " "]})
        assert "text 2 of 2 is blank" in blank.json()["error"]["message"]


async def test_the_map_shows_the_index(serve: Serve, offline: SentenceEncoder, sentences: list[str]) -> None:
    corpus = short(sentences, offline)[:120]
    async with to(serve()) as client:
        drawn = (await client.get("/map")).json()
        assert drawn["rows"] == len(drawn["points"]) == 120
        assert [point["id"] for point in drawn["points"]] == [f"s{i}" for i in range(120)]
        assert drawn["points"][3]["text"] == corpus[3]
        places = np.array([[point["x"], point["y"]] for point in drawn["points"]])
        assert np.abs(places).max() == pytest.approx(1, abs=1e-3)
        assert (await client.get("/map")).json() == drawn
        refused = await client.get("/map", params={"method": "umap"})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "method")
    async with to(serve(limits=Limits(map_points=40))) as client:
        some = (await client.get("/map")).json()
        assert some["rows"] == 120
        assert len(some["points"]) == 40
