"""The load that benchmarks/serving_peers.py sends to each server, and what it makes of the answers."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
TEXTS = ["Snow fell.", "The kettle boils."]
VECTORS = np.array([[1.0, 0.0], [0.0, 1.0]], dtype=np.float32)


class Answering:
    """A server on a thread that answers each text with its vector, or with ``status``."""

    def __init__(self) -> None:
        self.status = "200 OK"
        self.connections = 0
        self.port = 0
        self.loop = asyncio.new_event_loop()
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        assert self.ready.wait(10)

    def run(self) -> None:
        async def start() -> None:
            server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            self.ready.set()

        self.loop.create_task(start())
        self.loop.run_forever()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
                text = json.loads(await reader.readexactly(length))["input"][0]
                vector = VECTORS[TEXTS.index(text)].tolist() if text in TEXTS else [0.0, 0.0]
                body = json.dumps({"data": [{"embedding": vector}]}).encode()
                writer.write(f"HTTP/1.1 {self.status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@pytest.fixture
def answering() -> Iterator[Answering]:
    server = Answering()
    yield server
    server.loop.call_soon_threadsafe(server.loop.stop)
    server.thread.join(10)
    server.loop.close()


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("serving_peers")


def test_requests_are_counted_and_answers_compared(peers: Any, answering: Answering) -> None:
    server = peers.Server("one", "fast", ())
    row = peers.measured(server, answering.port, 3, 0.3, TEXTS, VECTORS)
    assert (row["server"], row["settings"], row["clients"]) == ("one", "fast", 3)
    assert row["requests"] >= row["compared"] >= 1
    assert row["rate"] > 0
    assert 0 < row["p50"] <= row["p99"]
    assert row["furthest"] == 0
    assert answering.connections == 3  # each client keeps its connection


def test_another_vector_ends_the_measurement(peers: Any, answering: Answering) -> None:
    with pytest.raises(SystemExit, match=r"one \(fast\): a vector is 1.0 away from the offline one"):
        peers.measured(peers.Server("one", "fast", ()), answering.port, 1, 0.2, TEXTS, VECTORS[::-1])


def test_an_error_ends_the_measurement(peers: Any, answering: Answering) -> None:
    answering.status = "503 Service Unavailable"
    with pytest.raises(SystemExit, match="one, 1 clients: a request was lost"):
        peers.measured(peers.Server("one", "", ()), answering.port, 1, 0.2, TEXTS, VECTORS)


def test_a_server_that_does_not_start_is_an_error_with_what_it_printed(peers: Any) -> None:
    with (
        pytest.raises(SystemExit, match=r"broken did not start: .*no such server"),
        peers.Server("broken", "", (sys.executable, "-c", "raise SystemExit('no such server')")).running(),
    ):
        raise AssertionError("it runs")


def test_peers_are_left_out_without_their_python(peers: Any) -> None:
    def names(*more: Any, bf16: bool = False) -> list[str]:
        return [f"{one.name}, {one.settings}" for one in peers.servers("MODEL", *more, 2, bf16=bf16)]

    ours, around = "opencse serve", "FastAPI + sentence-transformers"
    fewest = [f"{ours}, ", f"{ours}, one thread", f"{around}, one process", f"{around}, 2 processes of one thread"]
    assert names(None, None) == fewest
    more = names(Path("/venv/bin/python"), "ONNX")
    assert [name for name in more if name not in fewest] == [
        "infinity-emb, torch",
        "infinity-emb, onnxruntime, batch 64",
    ]
    assert names(Path("/venv/bin/python"), None) == [name for name in more if "onnx" not in name]
    assert [name for name in names(None, None, bf16=True) if name not in fewest] == [f"{ours}, bf16"]
