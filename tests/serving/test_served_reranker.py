"""Searches that are re-ranked by a cross-encoder: equal to the library's, switched off, limited and counted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from numpy.typing import NDArray

import opencse as library
from cross_encoders import write_cross_encoder
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.progress import Count
from opencse.reranking.cross_encoder import CrossEncoder
from opencse.reranking.second_stage import SecondStage
from opencse.search.index import Index
from opencse.search.result import Hit
from opencse.serving.app import create_app
from opencse.serving.errors import ApiError
from opencse.serving.limits import Limits
from opencse.serving.metrics import Metrics
from opencse.serving.served_reranker import ServedReranker
from opencse.serving.service import Service
from serving.harness import to

pytestmark = pytest.mark.anyio
QUERIES = ["a dog in the snow", "music on a stage"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cross_encoder(tmp_path_factory.mktemp("cross") / "encoder")


@pytest.fixture
def service(folder: Path, model: SentenceEncoder, index_folder: Path) -> Iterator[Service]:
    stage = SecondStage(CrossEncoder.load(folder, device="cpu"), depth=15)
    indexes = {"tiny": Index.open(index_folder, encoder=model)}
    service = Service({"tiny": model}, indexes, stage=stage, limits=Limits(reranked=120, hits=100))
    yield service
    service.close()


async def test_search_is_reranked_unless_the_request_says_otherwise(
    service: Service, folder: Path, offline: SentenceEncoder, index_folder: Path
) -> None:
    def expected(**options: object) -> list[list[tuple[str, object]]]:
        result = library.query_index(index_folder, QUERIES, k=4, model=offline, **options)  # type: ignore[arg-type]
        return [[(hit.id, pytest.approx(hit.score, abs=1e-5)) for hit in hits] for hits in result]

    async with to(create_app(service)) as client:

        async def searched(**body: object) -> tuple[list[list[tuple[str, float]]], str | None]:
            answer = (await client.post("/search", json={"query": QUERIES, "k": 4, **body})).json()
            hits = [[(hit["id"], hit["score"]) for hit in found["hits"]] for found in answer["data"]]
            return hits, answer.get("reranked_by")

        assert await searched() == (expected(rerank=folder, rerank_depth=15), "encoder")
        assert await searched(rerank=True, rerank_depth=7) == (expected(rerank=folder, rerank_depth=7), "encoder")
        assert await searched(hybrid=True) == (expected(rerank=folder, rerank_depth=15, hybrid=True), "encoder")
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
        assert (await client.get("/info")).json()["reranker"] == {"id": "encoder", "depth": 15}
        text = (await client.get("/metrics")).text
        assert f'opencse_reranked_texts_total{{model="encoder"}} {2 * (5 * 15 + 7)}.0' in text
        assert 'opencse_waiting_reranked_texts{model="encoder"} 0.0' in text
        assert "opencse_rerank_seconds_total" in text


@dataclass
class Slow:
    """Scores when it may."""

    allowed: Event
    name: str = "slow"

    def scores(
        self, pairs: Sequence[tuple[str, str]], *, logits: bool = False, progress: Count | None = None
    ) -> NDArray[np.float32]:
        self.allowed.wait(20)
        return np.arange(len(pairs), dtype=np.float32)


async def test_waiting_requests_are_counted_cancelled_and_refused() -> None:
    allowed = Event()
    reranker = ServedReranker(SecondStage(Slow(allowed), 2), Limits(waiting_texts=3), Metrics())
    hits = [Hit("a", 0.9, "A."), Hit("b", 0.8, "B.")]
    assert reranker.hits(1, 1, None) == 2
    running = asyncio.create_task(reranker.rerank(["q"], [hits], 2, None))
    cancelled = asyncio.create_task(reranker.rerank(["q", "r"], [hits, hits], 2, None))
    await asyncio.sleep(0.05)
    with pytest.raises(ApiError, match="6 texts wait for the cross-encoder"):
        reranker.hits(1, 1, None)
    cancelled.cancel()
    await asyncio.sleep(0)
    allowed.set()
    assert [hit.id for hit in (await running)[0]] == ["b", "a"]
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert reranker.hits(1, 1, None) == 2
    assert await reranker.rerank(["q"], [[]], 2, None) == [[]]
    assert reranker.alive
    reranker.close()


def test_reranking_needs_an_index(folder: Path) -> None:
    with pytest.raises(UserError, match="--rerank re-ranks the hits of an index; add --index"):
        library.serve("opencse-mini", rerank=folder, port=0)
