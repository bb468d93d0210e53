"""Whatever is sent, the answer comes, is no 500, and where it is an error has OpenAI's shape."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import httpx
import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings

from fuzzing import examples
from serving.harness import to
from serving.malformed import Wrong, requests

FEW = settings(examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
seen: Counter[int] = Counter()


async def sent(app: FastAPI, wrong: Wrong) -> httpx.Response:
    async with to(app) as client, asyncio.timeout(20):
        return await client.request(wrong.method, wrong.path, content=wrong.body, headers=wrong.headers)


@pytest.mark.slow
@pytest.mark.hypothesis
def test_malformed_requests(serve: Callable[..., FastAPI]) -> None:
    app = serve()

    @FEW
    @given(requests)
    def each(wrong: Wrong) -> None:
        answer = asyncio.run(sent(app, wrong))
        seen[answer.status_code] += 1
        assert answer.status_code < 500
        if answer.status_code >= 400 and wrong.method != "HEAD":
            assert set(answer.json()["error"]) == {"message", "type", "param", "code"}

    seen.clear()
    each()
    assert {200, 400, 404, 405, 415} <= seen.keys(), "the requests are all of one kind"
    good = Wrong("POST", "/v1/embeddings", b'{"input": "a"}', {"Content-Type": "application/json"})
    assert asyncio.run(sent(app, good)).status_code == 200
