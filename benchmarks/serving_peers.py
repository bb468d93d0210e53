"""`opencse serve` compared with infinity-emb and with FastAPI around sentence-transformers: short texts, many clients.

    python benchmarks/serving_peers.py --model MINILM --peer-python VENV/bin/python --onnx MINILM_ONNX --json FILE

Each server in turn is started, answers one text per request to 1, 4, 16 and 64 clients at a time, and is stopped; then
all of them again. The clients are a process of its own (serving_load.py) on the same processors. Of every 25th answer
the vector is compared with `SentenceEncoder.encode` of the text. `page.py` makes the page's table of the record.

infinity-emb needs versions of its own, so it runs in another environment:

    python -m venv VENV && VENV/bin/pip install torch==2.13.0 "infinity-emb[server,torch,optimum]"

MINILM_ONNX is the same model for its ONNX engine, exported in that environment, where optimum-onnx is installed:

    optimum-cli export onnx --model MINILM --task feature-extraction --library transformers MINILM_ONNX

Without --onnx that engine is left out, and without --peer-python infinity-emb. All calculate in float32 but for one
row of opencse in bf16, where the processor has a unit for it.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import opencse
from opencse.encoder.encoder import SentenceEncoder
from opencse.environment import Environment, installed
from opencse.kernels.precision import choose_precision
from opencse.text import sample

CLIENTS = (1, 4, 16, 64)
CLOSE = 1e-5
CLOSE_IN_BF16 = 0.01
WORDS = 12
OURS = "opencse serve"
STARTS = 180
"""Seconds that a server gets to start."""
_HERE = Path(__file__).parent
_PEER_VERSIONS = (
    "infinity-emb",
    "sentence-transformers",
    "transformers",
    "torch",
    "onnxruntime",
    "optimum",
    "optimum-onnx",
    "uvloop",
)


@dataclass(frozen=True)
class Server:
    """How a server is started.

    Attributes:
        name: in the table.
        settings: in the table, where they are not the server's defaults.
        command: its arguments; ``{port}`` stands for the port.
        path: of embeddings.
        environment: variables.
        folder: in which it runs.
        close: how far a number of a vector may be from the offline one in float32.
    """

    name: str
    settings: str
    command: tuple[str, ...]
    path: str = "/embeddings"
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str | None = None
    close: float = CLOSE

    @contextmanager
    def running(self) -> Iterator[int]:
        """The port on which it answers, for the block.

        Raises:
            SystemExit: if it does not start, with the end of what it printed.
        """
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port: int = free.getsockname()[1]
        command = [argument.format(port=port) for argument in self.command]
        log = Path(tempfile.gettempdir()) / f"serving-{port}.log"
        with log.open("wb") as out:
            environment = {**os.environ, **self.environment}
            process = subprocess.Popen(command, env=environment, cwd=self.folder, stdout=out, stderr=out)
        try:
            until = time.monotonic() + STARTS
            while not _answers(port, self.path):
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit(f"{self.name} did not start: {log.read_text(encoding='utf-8')[-2_000:]}")
                time.sleep(0.3)
            yield port
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
            log.unlink()


def _answers(port: int, path: str) -> bool:
    body = json.dumps({"input": ["Is it ready?"], "model": "model"}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", data=body, headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{error.code} {error.read()[:500]!r}") from None
    except OSError:
        return False


def servers(model: str, peer: Path | None, onnx: str | None, threads: int, *, bf16: bool) -> list[Server]:
    """All that are compared, opencse first, with ``bf16`` also in bf16."""
    common = {"OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    source = {**common, "PYTHONPATH": str(Path(opencse.__file__).parents[1])}
    ours = (sys.executable, "-m", "opencse", "serve", model, "--name", "model", "--port", "{port}", "--device", "cpu")
    app = (sys.executable, "-m", "uvicorn", "serving_app:app", "--app-dir", str(_HERE), "--port", "{port}",
           "--log-level", "critical")  # fmt: skip
    everything = [
        Server(OURS, "", ours, "/v1/embeddings", source),
        Server(OURS, "one thread", ours, "/v1/embeddings", {**source, "OMP_NUM_THREADS": "1"}),
    ]
    if bf16:
        in_bf16 = (*ours, "--precision", "bf16")
        everything.append(Server(OURS, "bf16", in_bf16, "/v1/embeddings", source, close=CLOSE_IN_BF16))
    if peer is not None:
        infinity = (str(peer.with_name("infinity_emb")), "v2", "--served-model-name", "model", "--device", "cpu",
                    "--host", "127.0.0.1", "--port", "{port}", "--log-level", "critical")  # fmt: skip
        quiet = {**common, "DO_NOT_TRACK": "1"}
        everything.append(Server("infinity-emb", "torch", (*infinity, "--model-id", model), environment=quiet))
        if onnx:
            best = ("--engine", "optimum", "--pooling-method", "mean", "--batch-size", "64")
            command = (*infinity, "--model-id", ".", *best)  # optimum refuses the path that it makes of another folder
            everything.append(Server("infinity-emb", "onnxruntime, batch 64", command, environment=quiet, folder=onnx))
    around = {**common, "MODEL": model}
    everything.append(Server("FastAPI + sentence-transformers", "one process", app, "/embeddings", around))
    everything.append(
        Server(
            "FastAPI + sentence-transformers",
            f"{threads} processes of one thread",
            (*app, "--workers", str(threads)),
            "/embeddings",
            {**around, "TORCH_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
    )
    return everything


def _without_paths(server: Server) -> list[str]:
    """The command as anyone would type it."""
    names = {sys.executable: "python", str(_HERE): "benchmarks"}
    return [names.get(part, part) for part in server.command]


def measured(
    server: Server, port: int, clients: int, seconds: float, texts: Sequence[str], expected: NDArray[np.float32]
) -> dict[str, Any]:
    """A row of the record.

    Raises:
        SystemExit: if a request is lost, or a vector is another.
    """
    command = [sys.executable, str(_HERE / "serving_load.py"), str(port), server.path]
    command += ["--clients", str(clients), "--seconds", str(seconds)]
    done = subprocess.run(command, input=json.dumps(texts), text=True, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise SystemExit(f"{server.name}, {clients} clients: a request was lost")
    told = json.loads(done.stdout)
    rows, vectors = zip(*told["answers"], strict=True)
    away = float(np.abs(np.array(vectors, dtype=np.float32) - expected[list(rows)]).max())
    if away > server.close:
        raise SystemExit(f"{server.name} ({server.settings}): a vector is {away} away from the offline one")
    waits = 1_000 * np.array(told["waits"])
    return {
        "server": server.name,
        "settings": server.settings,
        "clients": clients,
        "requests": len(waits),
        "rate": len(waits) / told["seconds"],
        "p50": float(np.percentile(waits, 50)),
        "p99": float(np.percentile(waits, 99)),
        "furthest": away,
        "compared": len(rows),
        "clients_processor": told["processor"] / told["seconds"],
    }


def table(records: Sequence[dict[str, Any]]) -> str:
    """One row per server of the first record, with medians over the turns."""
    rows = records[0]["rows"]
    most = max(row["clients"] for row in rows)
    lines = [
        f"| server | settings | requests/s, 1 client | p50 ms | p99 ms | requests/s, {most} clients | p50 ms "
        "| p99 ms | opencse's rate compared |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, settings in dict.fromkeys((row["server"], row["settings"]) for row in rows):
        cells = [name, settings or "defaults"]
        for clients in (1, most):
            of_these = _rows(rows, name, settings, clients)
            cells += [f"{_median(of_these, 'rate'):,.0f}"]
            cells += [f"{_median(of_these, key):,.1f}" for key in ("p50", "p99")]
        ratios = [
            ours["rate"] / theirs["rate"]
            for ours, theirs in zip(_rows(rows, OURS, "", most), _rows(rows, name, settings, most), strict=True)
        ]
        cells.append("" if (name, settings) == (OURS, "") else f"{statistics.median(ratios):.2f}x")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _rows(rows: Sequence[dict[str, Any]], name: str, settings: str, clients: int) -> list[dict[str, Any]]:
    return [r for r in rows if (r["server"], r["settings"], r["clients"]) == (name, settings, clients)]


def _median(rows: Sequence[dict[str, Any]], key: str) -> float:
    return float(statistics.median(row[key] for row in rows))


def peer_versions(peer: Path) -> dict[str, str]:
    """What is installed in the environment of infinity-emb, of the packages that count."""
    program = (
        "import json, sys\nfrom importlib.metadata import version, PackageNotFoundError\nfound = {}\n"
        "for name in sys.argv[1:]:\n    try: found[name] = version(name)\n    except PackageNotFoundError: pass\n"
        "print(json.dumps(found))"
    )
    told = subprocess.run([str(peer), "-c", program, *_PEER_VERSIONS], check=True, capture_output=True, text=True)
    versions: dict[str, str] = json.loads(told.stdout)
    return versions


def main() -> None:
    """Measures all servers and writes the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder")
    parser.add_argument("--peer-python", type=Path, help="python of an environment with infinity-emb")
    parser.add_argument("--onnx", help="folder of the same model for the ONNX engine of infinity-emb")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="of each server")
    parser.add_argument("--clients", type=int, nargs="+", default=list(CLIENTS))
    parser.add_argument("--seconds", type=float, default=4, help="of each row")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    texts = [text for text in dict.fromkeys(sample.TRAIN.read_text(encoding="utf-8").splitlines()) if text]
    texts = [text for text in texts if len(text.split()) <= WORDS]
    encoder = SentenceEncoder.load(asked.model, device="cpu")
    expected = np.stack([encoder.encode(text) for text in texts])
    peer = asked.peer_python and asked.peer_python.absolute()  # not resolved: a link names the environment
    bf16 = choose_precision("auto", torch.device("cpu")).bf16
    compared = servers(str(Path(asked.model).resolve()), peer, asked.onnx, asked.threads, bf16=bf16)
    named = servers("MINILM", peer and Path("VENV/bin/python"), asked.onnx and "MINILM_ONNX", asked.threads, bf16=bf16)
    rows = []
    for turn in range(asked.turns):
        for server in compared:
            with server.running() as port:
                measured(server, port, max(asked.clients), min(2, asked.seconds), texts, expected)  # to warm up
                for clients in asked.clients:
                    rows.append({"turn": turn, **measured(server, port, clients, asked.seconds, texts, expected)})
                    row = rows[-1]
                    told = f"{row['rate']:,.0f} requests/s, p50 {row['p50']:,.1f} ms, p99 {row['p99']:,.1f} ms"
                    print(f"{server.name} ({server.settings or 'defaults'}), {clients} clients: {told}", flush=True)
    record = {
        "command": "python benchmarks/serving_peers.py --model MINILM --peer-python VENV/bin/python --onnx MINILM_ONNX",
        "texts": {"number": len(texts), "tokens": float(np.mean([len(row) for row in encoder.tokenize(texts)]))},
        "threads": asked.threads,
        "load": os.getloadavg()[0],
        "date": time.strftime("%Y-%m-%d"),
        "environment": Environment.here("cpu").model_dump(),
        "versions": {name: installed(name) for name in ("fastapi", "uvicorn", "sentence-transformers")},
        "peer_versions": peer_versions(asked.peer_python) if asked.peer_python else {},
        "commands": [{"name": s.name, "settings": s.settings, "command": _without_paths(s)} for s in named],
        "rows": rows,
    }
    print(table([record]))
    if asked.json:
        asked.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
