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

FEW = settings(examples(250), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
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


@pytest.mark.slow
@pytest.mark.hypothesis
def test_the_schema_tells_the_truth(serve: Callable[..., FastAPI]) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    app = serve()
    schema = schemathesis.openapi.from_dict(app.openapi())
    schema.app = app
    known = {(operation.ok().method.upper(), operation.ok().path) for operation in schema.get_all_operations()}
    assert {("POST", "/v1/embeddings"), ("POST", "/search"), ("POST", "/similarity"), ("GET", "/map")} <= known
    for operation in schema.get_all_operations():

        @settings(FEW, max_examples=examples(15).max_examples)
        @given(operation.ok().as_strategy())
        def each(case: object) -> None:
            call = case.as_transport_kwargs(base_url="http://127.0.0.1")  # type: ignore[attr-defined]
            known = {
                key: call[key] for key in ("method", "url", "headers", "params", "json") if call.get(key) is not None
            }
            if "data" in call:
                known["content"] = call["data"]

            async def ask() -> httpx.Response:
                async with to(app) as client, asyncio.timeout(20):
                    return await client.request(**known)

            answer = asyncio.run(ask())
            assert answer.status_code < 500
            seen[answer.status_code] += 1

        seen.clear()
        each()
        assert seen[200] or operation.ok().path in ("/v1/models/{name}", "/search"), operation.ok().path
