"""Reading bodies: limits, memory, and clients that disconnect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI, Request

from opencse.serving.requests import ApiError, Limits, read_body
from serving.harness import require_parameters_refused, to

pytestmark = pytest.mark.anyio


def request(*chunks: bytes, headers: dict[str, str] | None = None, then: str = "http.disconnect") -> Request:
    """A request whose body arrives in chunks; afterwards the client disconnects, or nothing arrives."""
    named = {"content-type": "application/json", **(headers or {})}
    messages: list[dict[str, Any]] = [
        {"type": "http.request", "body": chunk, "more_body": number < len(chunks) - 1}
        for number, chunk in enumerate(chunks)
    ]

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop(0)
        if then != "http.disconnect":
            await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "headers": [(key.encode(), value.encode()) for key, value in named.items()],
    }
    return Request(scope, receive)


async def test_a_body_that_is_too_long_or_too_slow_is_refused() -> None:
    with pytest.raises(ApiError) as caught:
        await read_body(request(b"x" * 60, b"x" * 60), Limits(body_bytes=100), lambda _: None)
    assert caught.value.status == 413
    slow = request(then="nothing")
    with pytest.raises(ApiError) as caught:
        await read_body(slow, Limits(read_seconds=0.05), lambda _: None)
    assert caught.value.status == 408


async def test_unknown_parameters_are_refused_by_every_route(serve: Callable[..., FastAPI]) -> None:
    await require_parameters_refused(serve())
    async with to(serve()) as client:
        assert (await client.get("/map?method=pca")).status_code == 200
        answer = await client.get("/map?method=pca&method=tsne")
        assert answer.status_code == 400
        assert answer.json()["error"]["message"] == "method: is in the address twice; send it once"
        sent = await client.post("/search?k=3", json={"query": "snow"})
        assert sent.json()["error"]["message"].endswith("this address has none, and what is sent is in the body")
