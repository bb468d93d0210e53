"""Keys, hosts, security headers, and limits of waiting texts and memory."""

from __future__ import annotations

import asyncio
import threading

import pytest
from torch import Tensor

from opencse.encoder.encoder import SentenceEncoder
from opencse.serving.requests import Limits
from opencse.text.tokenizer import Tokens
from serving.conftest import Serve
from serving.harness import to

pytestmark = pytest.mark.anyio


async def test_requests_need_a_key(serve: Serve) -> None:
    async with to(serve(keys=["right", "other"])) as client:
        for path in ("/v1/models", "/info", "/metrics", "/map", "/nothing"):
            refused = await client.get(path)
            assert refused.status_code == 401
            assert refused.json()["error"]["type"] == "authentication_error"
            assert refused.headers["WWW-Authenticate"] == "Bearer"
        for path in ("/", "/health", "/page/style.css"):
            assert (await client.get(path)).status_code == 200
        for header in ("Bearer right", "bearer other"):
            assert (await client.get("/v1/models", headers={"Authorization": header})).status_code == 200
        for header in ("right", "Bearer wrong", "Bearer ", "Basic right", "Bearer righ", "Bearer right2", "Bearer é"):
            answer = await client.get("/v1/models", headers={b"Authorization": header.encode("latin-1")})
            assert answer.status_code == 401


async def test_other_hosts_are_not_answered_for(serve: Serve) -> None:
    async with to(serve(hosts=["search.example"])) as client:
        for host in ("127.0.0.1:8000", "localhost", "[::1]:80", "search.example", "Search.Example:443"):
            assert (await client.get("/info", headers={"Host": host})).status_code == 200
        for host in ("evil.example", "127.0.0.1.evil.example", "", "[", "localhost.evil:80"):
            refused = await client.get("/info", headers={"Host": host})
            assert refused.status_code == 421
            assert "--allow-host" in refused.json()["error"]["message"]
    async with to(serve()) as client:
        assert (await client.get("/info", headers={"Host": "evil.example"})).status_code == 200


async def test_every_answer_keeps_browsers_in(serve: Serve) -> None:
    async with to(serve()) as client:
        for path in ("/", "/page/style.css", "/nothing", "/info", "/page/../app.py"):
            headers = (await client.get(path)).headers
            policy = headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "http" not in policy
            assert headers["X-Content-Type-Options"] == "nosniff"
        assert (await client.get("/page/../app.py")).status_code == 404
        assert (await client.get("/page/%2e%2e/app.py")).status_code == 404


@pytest.fixture
def go(model: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """While it is cleared the encoder is kept busy."""
    go = threading.Event()
    go.set()
    embed = model.embed

    def waiting(tokens: Tokens, **more: bool) -> Tensor:
        assert go.wait(20)
        return embed(tokens, **more)

    monkeypatch.setattr(model, "embed", waiting)
    return go


async def test_too_many_waiting_texts_are_answered_503(serve: Serve, go: threading.Event) -> None:
    async with to(serve(limits=Limits(waiting_texts=600, body_bytes=2**20))) as client:
        go.clear()
        texts = [f"the snow {i} " * 20 for i in range(600)]
        first = [asyncio.create_task(client.post("/v1/embeddings", json={"input": texts})) for _ in range(2)]
        while 'opencse_waiting_texts{model="tiny"} 0.0' in (await client.get("/metrics")).text:
            await asyncio.sleep(0.02)
        for _ in range(200):
            answer = await client.get("/health")  # the loop is never blocked
            assert answer.status_code == 200
            late = asyncio.create_task(client.post("/v1/embeddings", json={"input": ["late"]}))
            done, _ = await asyncio.wait({late}, timeout=0.1)
            if done and late.result().status_code == 503:
                break
            late.cancel()
        else:
            pytest.fail("nothing was ever refused")
        assert int(late.result().headers["Retry-After"]) >= 1
        assert late.result().json()["error"]["code"] == "overloaded"
        go.set()
        assert {task.status_code for task in await asyncio.gather(*first)} <= {200, 503}
        assert 200 in {(await task).status_code for task in first}
        assert (await client.post("/v1/embeddings", json={"input": ["after"]})).status_code == 200
