"""Connections that send nothing, or slowly, do not keep the server from answering."""

from __future__ import annotations

import logging
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
import pytest
from fastapi import FastAPI

from opencse.serving.requests import Limits
from serving.harness import live

Serve = Callable[..., FastAPI]
pytestmark = pytest.mark.slow


def connect(url: str) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=5)


def closed(connection: socket.socket, seconds: float) -> bool:
    """Whether the other side closes the connection within so many seconds."""
    connection.settimeout(seconds)
    try:
        while connection.recv(4_096):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def answer(connection: socket.socket, end: bytes) -> bytes:
    """What comes up to ``end``."""
    received = b""
    while not received.endswith(end):
        more = connection.recv(4_096)
        assert more, received
        received += more
    return received


POST = (
    b"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n"
)


def healthy(url: str) -> bool:
    return httpx.get(f"{url}/health", timeout=10).status_code == 200


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: b"])
def test_a_request_without_headers_is_closed(serve: Serve, sent: bytes) -> None:
    limits = Limits(headers_seconds=0.5)
    with live(serve(indexed=False), limits=limits) as url:
        started = time.monotonic()
        with connect(url) as slow:
            if sent:
                slow.sendall(sent)
            assert closed(slow, 5)
            assert time.monotonic() - started >= 0.499
        assert healthy(url)


def ask_for_a_long_answer(url: str) -> socket.socket:
    """A connection that requests 12 MB, more than the system buffers, and has read its first bytes."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**18)
    host, port = url.removeprefix("http://").split(":")
    connection.settimeout(20)
    connection.connect((host, int(port)))
    body = b'{"texts": [%s]}' % b",".join(b'"snow fell %d times"' % i for i in range(800))
    connection.sendall(POST.replace(b"/v1/embeddings", b"/similarity").replace(b"14", b"%d" % len(body)) + body)
    assert connection.recv(1_024).startswith(b"HTTP/1.1 200")
    return connection


def read_to_the_end(connection: socket.socket, pause: float = 0.0) -> int:
    """The bytes of an answer that arrive, read with a pause after each piece."""
    size = 0
    try:
        while piece := connection.recv(2**17):
            size += len(piece)
            time.sleep(pause)
    except OSError:
        pass
    return size


@pytest.mark.skipif(sys.platform != "linux", reason="the system has no such limit")
def test_a_client_that_does_not_read_its_answer_is_closed(serve: Serve) -> None:
    limits = Limits(write_seconds=0.5, pairs=10**6)
    with live(serve(indexed=False, limits=limits), limits=limits) as url, ask_for_a_long_answer(url) as silent:
        time.sleep(3)
        assert read_to_the_end(silent) < 9_000_000
        assert healthy(url)


class Lines(logging.Handler):
    """Keeps the lines that are logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def warnings() -> Iterator[Lines]:
    """The server's warnings."""
    logger, kept = logging.getLogger("opencse.serving"), Lines()
    kept.setLevel(logging.WARNING)
    logger.addHandler(kept)
    yield kept
    logger.removeHandler(kept)


def test_many_idle_connections_leave_room_for_requests_and_a_line_in_the_log(serve: Serve, warnings: Lines) -> None:
    with ExitStack() as stack:
        url = stack.enter_context(live(serve(indexed=False), limits=Limits(connections=20)))
        idle = [stack.enter_context(connect(url)) for _ in range(60)]
        assert healthy(url)
        assert all(closed(one, 5) for one in idle[:35])  # the oldest have made room
        assert not closed(idle[-1], 0.2)
        assert healthy(url)
        lines = [line for line in warnings.lines if "connections are open" in line]
        assert len(lines) == 1
        assert lines[0].startswith("20 connections are open, which is the limit")
