"""Searches that are re-ranked by a cross-encoder: equal to the library's, switched off, limited and counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import opencse as library
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.reranking.cross_encoder import CrossEncoder
from opencse.reranking.second_stage import SecondStage
from opencse.search.index import Index
from opencse.serving.app import create_app
from opencse.serving.requests import Limits
from opencse.serving.service import Service
from serving.harness import to

pytestmark = pytest.mark.anyio
QUERIES = ["a dog in the snow", "music on a stage"]


@pytest.fixture
def service(cross_encoder: Path, model: SentenceEncoder, index_folder: Path) -> Iterator[Service]:
    stage = SecondStage(CrossEncoder.load(cross_encoder, device="cpu"), depth=15)
    indexes = {"tiny": Index.open(index_folder, encoder=model)}
    service = Service({"tiny": model}, indexes, stage=stage, limits=Limits(reranked=120, hits=100))
    yield service
    service.close()


async def test_search_is_reranked_unless_the_request_says_otherwise(
    service: Service, cross_encoder: Path, offline: SentenceEncoder, index_folder: Path
) -> None:
    def expected(**options: object) -> list[list[tuple[str, object]]]:
        result = library.query_index(index_folder, QUERIES, k=4, model=offline, **options)  # type: ignore[arg-type]
        return [[(hit.id, pytest.approx(hit.score, abs=1e-5)) for hit in hits] for hits in result]

    async with to(create_app(service)) as client:

        async def searched(**body: object) -> tuple[list[list[tuple[str, float]]], str | None]:
            answer = (await client.post("/search", json={"query": QUERIES, "k": 4, **body})).json()
            hits = [[(hit["id"], hit["score"]) for hit in found["hits"]] for found in answer["data"]]
            return hits, answer.get("reranked_by")

        assert await searched() == (expected(rerank=cross_encoder, rerank_depth=15), "my-cross-encoder")
        assert await searched(rerank=True, rerank_depth=7) == (
            expected(rerank=cross_encoder, rerank_depth=7),
            "my-cross-encoder",
        )
        assert await searched(hybrid=True) == (
            expected(rerank=cross_encoder, rerank_depth=15, hybrid=True),
            "my-cross-encoder",
        )
        assert await searched(rerank=False) == (expected(), None)
        orders = [
            [[name for name, _ in hits] for hits in (await searched(**one))[0]] for one in ({}, {"rerank": False})
        ]
        assert orders[0] != orders[1]
        (first, *_), _ = await searched()
        gap, count = max((first[n - 1][1] - first[n][1], n) for n in range(1, 4))
        few, _ = await searched(threshold=first[count][1] + gap / 2)
        assert [name for name, _ in few[0]] == [name for name, _ in first[:count]]
        for body, message in (
            ({"query": QUERIES * 5}, "10 x 15 texts to re-rank are more than the 120 of one request"),
            ({"query": "a", "rerank_depth": 101}, "rerank_depth: at most 100"),
            ({"query": "a", "rerank": False, "rerank_depth": 5}, "nothing is re-ranked"),
        ):
            refused = await client.post("/search", json=body)
            assert refused.status_code == 400
            assert message in refused.json()["error"]["message"]
        assert (await client.get("/info")).json()["reranker"] == {"id": "my-cross-encoder", "depth": 15}
        text = (await client.get("/metrics")).text
        assert f'opencse_reranked_texts_total{{model="my-cross-encoder"}} {2 * (5 * 15 + 7)}.0' in text
        assert 'opencse_waiting_reranked_texts{model="my-cross-encoder"} 0.0' in text
        assert "opencse_rerank_seconds_total" in text


def test_reranking_needs_an_index(cross_encoder: Path) -> None:
    with pytest.raises(UserError, match="--rerank needs --index"):
        library.serve("opencse-mini", rerank=cross_encoder, port=0)
