"""Clients of an application: in this process, and on loopback."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import httpx
from fastapi import FastAPI

from opencse.encoder.encoder import SentenceEncoder
from opencse.serving.limits import Limits
from opencse.serving.server import address, bind, server

LOCAL = "http://127.0.0.1"


def to(app: FastAPI) -> httpx.AsyncClient:
    """A client of an application; what fails in it is answered as on a network, not raised."""
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url=LOCAL)


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
