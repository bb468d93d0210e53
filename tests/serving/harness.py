"""Clients of an application: in this process, and on loopback."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import httpx
from fastapi import FastAPI
from fastapi.routing import APIRoute

from opencse.encoder.encoder import SentenceEncoder
from opencse.serving.requests import Limits
from opencse.serving.server import address, bind, server

LOCAL = "http://127.0.0.1"


def to(app: FastAPI) -> httpx.AsyncClient:
    """A client of an application; what fails in it is answered as on a network, not raised."""
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    token = getattr(app.state, "token", None)
    return httpx.AsyncClient(transport=transport, base_url=LOCAL, params=token and {"token": token})


async def require_parameters_refused(app: FastAPI) -> None:
    """Every route refuses a query parameter that it does not have, and names those that it has."""
    routes = [route for route in app.routes if isinstance(route, APIRoute) and route.include_in_schema]
    assert len(routes) > 5
    async with to(app) as client:
        for route in routes:
            [method] = route.methods or {"GET"}
            answer = await client.request(
                method, route.path.replace("{name:path}", "a"), params={"metod": "x"}, json={}
            )
            assert answer.status_code == 400, route.path
            error = answer.json()["error"]
            assert (error["param"], error["code"]) == ("metod", "unknown_parameter"), route.path
            assert all(one.alias in error["message"] for one in route.dependant.query_params), route.path
        assert (await client.get("/", params={"metod": "x"})).status_code == 200, (
            "the page has no parameters to mistake"
        )


def short(texts: Iterable[str], encoder: SentenceEncoder) -> list[str]:
    """The different ones that the encoder reads whole."""
    distinct = list(dict.fromkeys(texts))
    return [t for t, ids in zip(distinct, encoder.tokenize(distinct), strict=True) if len(ids) < encoder.max_length]


@contextmanager
def live(app: FastAPI, *, limits: Limits | None = None) -> Iterator[str]:
    """Where an application is served on loopback, within the block."""
    listening = bind("127.0.0.1", 0)
    running = server(app, grace=10, limits=limits)
    thread = threading.Thread(target=running.run, args=([listening],))
    thread.start()
    try:
        until = time.monotonic() + 20
        while not running.started and time.monotonic() < until:
            time.sleep(0.01)
        assert running.started
        yield address(listening)
    finally:
        running.should_exit = True
        thread.join(20)
        assert not thread.is_alive()
