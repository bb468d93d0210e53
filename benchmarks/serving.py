"""The server under load on loopback: nothing lost, every vector the offline one, and what batching gains.

Run it by python benchmarks/serving.py, with --model FOLDER for another than the built-in encoder.

The server runs in a process of its own; the clients, in this one, each send their next request when the last is
answered. Requests are of mixed sizes (1 to 128 texts, most of them 1) and forms (texts and token ids, float and
base64); each vector is compared with `SentenceEncoder.encode` of its text alone. Requests of the same kind are also
sent one at a time. First come malformed requests: bodies with pieces cut, swapped and replaced, and bytes that are no
HTTP at all; none may be answered by a 5xx or not at all, and the server's memory is read before and after.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import platform
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

import opencse
from opencse.encoder.encoder import SentenceEncoder
from opencse.environment import Environment, installed
from opencse.text import sample

CLOSE = 1e-5
SIZES = ((0.6, (1, 1)), (0.25, (2, 8)), (0.12, (9, 32)), (0.03, (33, 128)))
PACKAGES = ("fastapi", "uvicorn", "httpx")


@dataclass(frozen=True)
class Load:
    """What was measured of some requests."""

    clients: int
    requests: int
    texts: int
    seconds: float
    waited: NDArray[np.float64]
    furthest: float

    def row(self) -> str:
        """A row of the table."""
        p50, p99 = 1_000 * np.percentile(self.waited, [50, 99])
        return (
            f"| {self.clients} | {self.requests:,} | {self.texts:,} | {self.requests / self.seconds:,.0f} | "
            f"{self.texts / self.seconds:,.0f} | {p50:,.1f} | {p99:,.1f} | {self.furthest:.1e} |"
        )


@contextmanager
def serving(model: str, threads: int) -> Iterator[tuple[str, int]]:
    """Where ``opencse serve`` listens, and its process."""
    own = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONPATH": str(Path(opencse.__file__).parents[1])}
    command = [sys.executable, "-m", "opencse", "serve", model, "--name", "model", "--port", "0", "--device", "cpu"]
    process = subprocess.Popen(command, env=own, text=True, stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(r"(http://\S+)/ is the page", line):
                break
            print(line.rstrip())
        else:
            raise SystemExit("the server did not start")
        yield found[1], process.pid
    finally:
        process.terminate()
        if process.wait(60) != 0:
            raise SystemExit(f"the server ended with {process.returncode}")


def sizes(count: int, seed: int) -> list[int]:
    """Texts of each request."""
    draw = random.Random(seed)
    kinds = draw.choices([bounds for _, bounds in SIZES], [share for share, _ in SIZES], k=count)
    return [draw.randint(*bounds) for bounds in kinds]


async def load(
    address: str, clients: int, count: int, seed: int, texts: Sequence[str], ids: Sequence[list[int]],
    expected: NDArray[np.float32],
) -> Load:  # fmt: skip
    """Sends ``count`` requests from ``clients`` at a time; stops at the first that is lost or wrong."""
    draw = random.Random(seed)
    todo = [[draw.randrange(len(texts)) for _ in range(size)] for size in sizes(count, seed)]
    waited: list[float] = []
    furthest = 0.0
    queue = iter(enumerate(todo))

    async def work() -> None:
        nonlocal furthest
        async with httpx.AsyncClient(base_url=address, timeout=300) as client:
            for number, rows in queue:
                given = [ids[i] for i in rows] if number % 3 == 0 else [texts[i] for i in rows]
                form = "float" if number % 4 == 0 else "base64"
                body = json.dumps({"input": given, "model": "model", "encoding_format": form}).encode()
                started = time.perf_counter()
                answer = await client.post("/v1/embeddings", content=body, headers={"Content-Type": "application/json"})
                waited.append(time.perf_counter() - started)
                if answer.status_code != 200:
                    raise SystemExit(f"lost: {answer.status_code} {answer.text[:300]}")
                data = answer.json()["data"]
                if form == "float":
                    made = np.array([one["embedding"] for one in data], dtype=np.float32)
                else:
                    made = np.array([np.frombuffer(base64.b64decode(one["embedding"]), "<f4") for one in data])
                away = float(np.abs(made - expected[rows]).max())
                if made.shape != expected[rows].shape or away > CLOSE:
                    raise SystemExit(f"mixed up: request {number} is {away} away from the offline vectors")
                furthest = max(furthest, away)

    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(clients)))
    seconds = time.perf_counter() - started
    if len(waited) != count:
        raise SystemExit(f"{count - len(waited)} requests are lost")
    return Load(clients, count, sum(map(len, todo)), seconds, np.array(waited), furthest)


def malformed(draw: random.Random) -> tuple[str, str, bytes, str]:
    """Method, path, body and content type of a request that is most likely wrong."""
    path = draw.choice(["/v1/embeddings", "/search", "/similarity", "/map", "/v1/models/x", "/page/../app.py", "/%00"])
    odd: list[Any] = [None, True, -1, 10**40, 1e308, "", "\x00", "é" * 2_000, [], [[]], {}, [None], [[-1]], {"a": [1]}]
    body: dict[str, Any] = {
        draw.choice(["input", "query", "texts"]): draw.choice([*odd, "snow", ["snow", "tea"], [[5, 6], [7]]]),
        draw.choice(["model", "dimensions", "encoding_format", "k", "threshold", "where", "others"]): draw.choice(odd),
    }
    raw = bytearray(json.dumps(body).encode())
    for _ in range(draw.choice([0, 0, 1, 3])):
        place = draw.randrange(len(raw))
        cut = draw.choice([raw[:place], raw[place:], raw[:place] + bytes([draw.randrange(256)]) + raw[place + 1 :]])
        raw = cut or bytearray(b"{")
    kind = draw.choice(["application/json"] * 5 + ["text/plain", ""])
    return draw.choice(["POST"] * 6 + ["GET", "PUT", "DELETE", "OPTIONS"]), path, bytes(raw), kind


async def attack(address: str, count: int, seed: int) -> tuple[Counter[int], float]:
    """Sends malformed requests from 16 at a time; how many had which status, and the longest wait."""
    draw = random.Random(seed)
    seen: Counter[int] = Counter()
    longest = 0.0
    numbers = iter(range(count))
    host, port = address.removeprefix("http://").split(":")

    async def raw() -> int:
        reader, writer = await asyncio.open_connection(host, int(port))
        length = draw.randrange(1, 400)
        writer.write(draw.choice([b"", b"POST /v1/embeddings HTTP/1.1\r\n"]) + draw.randbytes(length) + b"\r\n\r\n")
        writer.write_eof()
        answer = await asyncio.wait_for(reader.read(), 30)
        writer.close()
        return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else 0

    async def work() -> None:
        nonlocal longest
        async with httpx.AsyncClient(base_url=address, timeout=30) as client:
            for number in numbers:
                started = time.perf_counter()
                if number % 20 == 0:
                    seen[await raw()] += 1
                else:
                    method, path, body, kind = malformed(draw)
                    answer = await client.request(method, path, content=body, headers={"Content-Type": kind})
                    seen[answer.status_code] += 1
                longest = max(longest, time.perf_counter() - started)

    await asyncio.gather(*(work() for _ in range(16)))
    if any(status >= 500 for status in seen):
        raise SystemExit(f"answered by a 5xx: {seen}")
    return seen, longest


def megabytes(process: int) -> float:
    """What a process has in memory (Linux)."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    return int(found[1]) / 1_024 if found else float("nan")


def main() -> None:
    """Loads the server and writes what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="opencse-mini")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--one-by-one", type=int, default=2_000)
    parser.add_argument("--malformed", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="a file of Markdown to write it to")
    asked = parser.parse_args()
    texts = list(dict.fromkeys(sample.TRAIN.read_text(encoding="utf-8").splitlines()))
    texts = [text for text in texts if text]
    encoder = SentenceEncoder.load(asked.model, device="cpu")
    expected = np.stack([encoder.encode(text) for text in texts])
    ids = [row.tolist() for row in encoder.tokenize(texts)]
    with serving(asked.model, asked.threads) as (address, process):
        asyncio.run(load(address, 4, 200, asked.seed + 1, texts, ids, expected))  # warm
        before = megabytes(process)
        seen, longest = asyncio.run(attack(address, asked.malformed, asked.seed))
        after = megabytes(process)
        print(seen, f"{longest:.2f} s, {before:.0f} MB, {after:.0f} MB", flush=True)
        loads = []
        for clients, count in ((1, asked.one_by_one), (asked.clients, asked.requests)):
            loads.append(asyncio.run(load(address, clients, count, asked.seed, texts, ids, expected)))
            print(loads[-1].row(), flush=True)
        told = httpx.get(f"{address}/metrics").text
    batches = {
        name: float(re.findall(rf'^opencse_batch_texts_{name}{{model="model"}} (\S+)', told, re.MULTILINE)[0])
        for name in ("sum", "count")
    }
    environment = [f"{key} {value}" for key, value in Environment.here("cpu").model_dump().items()]
    lines = [
        f"Model {asked.model} ({encoder.dimension} dimensions), {asked.threads} thread, seed {asked.seed}; "
        f"{len(texts):,} different texts of {np.mean([len(row) for row in ids]):.1f} tokens on average.",
        "",
        "| clients | requests | texts | requests/s | texts/s | p50 ms | p99 ms | furthest from offline |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|",
        *(one.row() for one in loads),
        "",
        f"No request was lost, and none had a vector further than {CLOSE:g} from the offline one. "
        f"{batches['sum'] / batches['count']:.1f} texts to a batch on average. Texts a second with {asked.clients} "
        f"clients: {loads[1].texts / loads[1].seconds / (loads[0].texts / loads[0].seconds):.2f} times those one by "
        "one.",
        "",
        f"{sum(seen.values()):,} malformed requests: "
        + ", ".join(f"{seen[status]:,} x {status or 'closed without an answer'}" for status in sorted(seen))
        + f"; the longest wait was {longest:.2f} s; the server held {before:,.0f} MB before and {after:,.0f} MB after.",
        "",
        ", ".join([*environment, *(f"{name} {installed(name)}" for name in PACKAGES), platform.machine(),
                   time.strftime("%Y-%m-%d")]) + ".",
    ]  # fmt: skip
    print(*lines, sep="\n")
    if asked.out:
        asked.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
