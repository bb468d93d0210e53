"""On a real socket: the clients that people have, many at a time, and the end of the server."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest
from fastapi import FastAPI

import opencse
from forked import Command, Forks
from opencse.encoder.encoder import SentenceEncoder
from serving.harness import live

pytestmark = pytest.mark.slow
TEXTS = ["The kettle boils.", "Snow fell on the roof.", "Some tea?"]


@pytest.fixture
def address(serve: Callable[..., FastAPI]) -> Iterator[str]:
    with live(serve(keys=["right"])) as address:
        yield address


def test_the_official_client(address: str, offline: SentenceEncoder) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"{address}/v1", api_key="right", max_retries=0)
    expected = offline.encode(TEXTS)
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").id == "tiny"
    made = client.embeddings.create(model="tiny", input=TEXTS)  # asks for base64 by itself
    assert np.abs(np.array([one.embedding for one in made.data]) - expected).max() < 1e-5
    assert made.usage.prompt_tokens == sum(map(len, offline.tokenize(TEXTS)))
    ids = [row.tolist() for row in offline.tokenize(TEXTS)]
    as_floats = client.embeddings.create(model="tiny", input=ids, encoding_format="float")
    assert np.abs(np.array([one.embedding for one in as_floats.data]) - expected).max() < 1e-5
    short = client.embeddings.create(model="tiny", input=TEXTS[0], dimensions=5).data[0].embedding
    assert len(short) == 5
    assert np.linalg.norm(short) == pytest.approx(1, abs=1e-5)
    with pytest.raises(openai.BadRequestError, match="dimensions"):
        client.embeddings.create(model="tiny", input="a", dimensions=99)
    with pytest.raises(openai.NotFoundError, match="no model 'gpt'"):
        client.embeddings.create(model="gpt", input="a")
    with pytest.raises(openai.AuthenticationError, match="API key"):
        openai.OpenAI(base_url=f"{address}/v1", api_key="wrong", max_retries=0).models.list()


def test_work_for_a_client_that_disconnects_is_cancelled(address: str) -> None:
    head = {"Authorization": "Bearer right"}
    with httpx.Client(base_url=address, headers=head) as client:
        for _ in range(5):
            with pytest.raises(httpx.TimeoutException):
                client.post("/v1/embeddings", json={"input": ["the snow " * 30] * 2_000}, timeout=0.2)
        assert client.post("/v1/embeddings", json={"input": TEXTS}, timeout=60).status_code == 200
        until = time.monotonic() + 20
        while "opencse_held_bytes 0.0" not in (told := client.get("/metrics").text) and time.monotonic() < until:
            time.sleep(0.05)
        assert "opencse_held_bytes 0.0" in told
        texts = float(re.findall(r'^opencse_texts_total{model="tiny"} (\S+)', told, re.MULTILINE)[0])
        assert texts < 10_000, "what nobody waited for was encoded all the same"


def start(*arguments: object, **environment: str) -> tuple[subprocess.Popen[str], list[str]]:
    """``opencse serve`` in a process of its own, once it listens; and what it said."""
    own = {**os.environ, "PYTHONPATH": str(Path(opencse.__file__).parents[1]), **environment}
    code = "import sys; from opencse.cli import main; sys.argv[0] = 'opencse'; main()"
    command = [sys.executable, "-c", code, "serve", *map(str, arguments), "--device", "cpu"]
    process = subprocess.Popen(command, env=own, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stderr is not None
    return process, said_until_it_listens(process.stderr)


def forked_server(forked: Forks, *arguments: object) -> tuple[Command, list[str]]:
    """The same in a forked process."""
    process = forked.start("serve", *arguments, "--port", 0, "--device", "cpu")
    return process, said_until_it_listens(process.stderr)


def said_until_it_listens(stderr: Iterable[str]) -> list[str]:
    said: list[str] = []
    for line in stderr:
        said.append(line.rstrip())
        if "stop with Ctrl-C" in line:
            break
    return said


def test_the_command_answers_what_it_took_on_before_it_ends(
    sharp_folder: Path, index_folder: Path, tiny_folder: Path, offline: SentenceEncoder
) -> None:
    process, said = start(
        sharp_folder, tiny_folder, "--name", "one", "--name", "two", "--index", index_folder, "--port", 0,
        OPENCSE_API_KEY="right",
    )  # fmt: skip
    try:
        assert any(line.startswith("two: has no index, so the 120 texts") for line in said), said
        address = re.findall(r"http://127\.0\.0\.1:\d+", said[-1])[0]
        texts = [f"the snow {i} and the ice" for i in range(1_500)]
        expected = offline.encode(texts)
        head = {"Authorization": "Bearer right"}

        def ask(_: int) -> httpx.Response:
            return httpx.post(f"{address}/v1/embeddings", json={"input": texts}, headers=head, timeout=60)

        with ThreadPoolExecutor(4) as pool:
            answers = [pool.submit(ask, i) for i in range(4)]
            until = time.monotonic() + 20
            while time.monotonic() < until:
                told = httpx.get(f"{address}/metrics", headers=head).text
                held = float(re.findall(r"^opencse_held_bytes (\S+)", told, re.MULTILINE)[0])
                if held > 4 * 30_000:
                    break
            process.send_signal(signal.SIGTERM)
            for answer in answers:
                made = np.array([one["embedding"] for one in answer.result().json()["data"]])
                assert np.abs(made - expected).max() < 1e-5
        assert process.wait(20) == 0
        assert process.stderr is not None
        assert process.stderr.read().splitlines() == ["stopped"]
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{address}/health")
    finally:
        process.kill()
        process.communicate()


def test_requests_that_are_not_done_when_the_server_stops_are_answered_503(sharp_folder: Path, forked: Forks) -> None:
    process, said = forked_server(forked, sharp_folder, "--grace", 1)
    port = int(re.findall(r":(\d+)/ is the page", said[-1])[0])
    with socket.create_connection(("127.0.0.1", port), timeout=20) as waiting:
        waiting.sendall(
            b"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Content-Length: 14\r\nExpect: 100-continue\r\n\r\n{"
        )
        assert waiting.recv(4_096) == b"HTTP/1.1 100 Continue\r\n\r\n", "the request was taken on"
        process.send_signal(signal.SIGTERM)
        received = b""
        while more := waiting.recv(4_096):
            received += more
    assert received.startswith(b"HTTP/1.1 503")
    assert b"retry-after: 5" in received.lower()
    assert b'"code":"overloaded"' in received
    assert process.wait(20) == 0
    assert "Traceback" not in process.stderr.read()


@pytest.mark.parametrize("later", [0, 0.5])
def test_ctrl_c_is_a_good_end(later: float, sharp_folder: Path, forked: Forks) -> None:
    process, said = forked_server(forked, sharp_folder)
    assert any(line.startswith("sharp0: 32 dimensions") for line in said), said
    time.sleep(later)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
