"""Sends requests to a server over kept connections, and prints how many it answered and how long each waited.

It imports the standard library alone, so that it takes little of the processor from the server; see serving_peers.py.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence

EVERY = 25
"""Of so many answers one is kept, to compare its vector."""


async def load(
    port: int, path: str, texts: Sequence[str], *, clients: int, seconds: float, seed: int
) -> dict[str, object]:
    """Sends one text per request from ``clients`` at a time; each sends the next when the last is answered.

    Raises:
        SystemExit: for an answer that is no success, or comes without its length.
    """
    requests = [request(path, text) for text in texts]
    waits: list[float] = []
    answers: list[tuple[int, bytes]] = []
    draw = random.Random(seed)
    until = time.perf_counter() + seconds

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (started := time.perf_counter()) < until:
            number = draw.randrange(len(texts))
            writer.write(requests[number])
            body = await answer(reader)
            waits.append(time.perf_counter() - started)
            if len(waits) % EVERY == 1:
                answers.append((number, body))
        writer.close()

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return {
        "seconds": time.perf_counter() - started,
        "processor": time.process_time(),
        "waits": waits,
        "answers": [(number, json.loads(body)["data"][0]["embedding"]) for number, body in answers],
    }


def request(path: str, text: str) -> bytes:
    """The bytes of a request."""
    body = json.dumps({"input": [text], "model": "model"}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


async def answer(reader: asyncio.StreamReader) -> bytes:
    """The body of the next answer."""
    status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if " 200 " not in f"{status} " or "content-length" not in headers:
        raise SystemExit(f"{status}; {headers}")
    return await reader.readexactly(int(headers["content-length"]))


def main() -> None:
    """Prints what came of it as JSON; the texts come as a list of JSON on standard input."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("path")
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    texts = json.load(sys.stdin)
    work = load(asked.port, asked.path, texts, clients=asked.clients, seconds=asked.seconds, seed=asked.seed)
    print(json.dumps(asyncio.run(work)))


if __name__ == "__main__":
    main()
