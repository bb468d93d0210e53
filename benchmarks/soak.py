"""Everything in turn for some minutes, killed in the middle: nothing may be lost, and memory may not grow.

Run it by python benchmarks/soak.py, with --minutes for another time than ten.

A round: a training that is killed (-9) at random moments and resumed until it ends, whose weights must be those of a
run that nobody killed, bit by bit; an evaluation, whose scores must be those of the first round; an index whose
building is killed and begun again, to which rows are added (killed, too: all or none) and from which others are
deleted, and which must then hold exactly what it should; requests to a server that lives through all rounds, whose
vectors and hits must stay the same. The first thing lost ends it with exit code 1.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from opencse.environment import Environment, installed
from opencse.evaluation import TASKS
from opencse.text import sample

STEPS, ROWS, ADDED, REQUESTS = 40, 400, 50, 50
TRAIN = ["train", "text.txt", "--out", "run", "--dev", "none", "--no-report", "-s", f"training.max_steps={STEPS}",
         "-s", "training.batch_size=16", "-s", "training.checkpoint_every=4"]  # fmt: skip
NAMED = ["--fields", "text", "--id", "id"]
GROWTH = 1.1
"""How many times the first round's peak of memory a later round's may be."""


class LostError(Exception):
    """Something is not as it must be."""


def require(good: bool, what: str) -> None:
    """Ends the soak where something was lost."""
    if not good:
        raise LostError(what)


class Soak:
    """The folder in which it happens, and what is counted: kills, and every command's peaks of memory in MB."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.draw = folder, random.Random(seed)
        self.kills = self.resumed = 0
        self.peaks: dict[str, list[float]] = defaultdict(list)
        self.seconds: dict[str, float] = {}

    def run(self, what: str, *arguments: object) -> None:
        """Runs a command to its end."""
        started = time.perf_counter()
        code, peak, told = self._to_its_end(self._start(arguments))
        require(code == 0, f"{what} ended with {code}: {told}")
        self.peaks[what].append(peak)
        self.seconds.setdefault(what, time.perf_counter() - started)

    def killed(self, what: str, *arguments: object) -> bool:
        """Kills a command at a random moment of the time it took when it was first run; False where it had ended."""
        process = self._start(arguments)
        killer = threading.Timer(self.draw.uniform(0.3, 1.1) * self.seconds[what], process.kill)
        killer.start()
        code, _, told = self._to_its_end(process)
        killer.cancel()
        require(code in (0, -9), f"{what} ended with {code}: {told}")
        self.kills += code == -9
        return code == -9

    def info(self) -> dict[str, Any]:
        """What the index tells of itself."""
        self.run("index info", "index", "info", "index", "--json", "info.json")
        told: dict[str, Any] = json.loads((self.folder / "info.json").read_text())
        return told

    def _start(self, arguments: tuple[object, ...]) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "opencse", *map(str, arguments)]
        with (self.folder / "told.txt").open("wb") as told:
            return subprocess.Popen(command, cwd=self.folder, stdout=told, stderr=told)

    def _to_its_end(self, process: subprocess.Popen[bytes]) -> tuple[int, float, str]:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, usage.ru_maxrss / 1024, (self.folder / "told.txt").read_text()[-400:]


def prepare(folder: Path) -> None:
    """The texts, and a small STS benchmark."""
    lines = list(dict.fromkeys(line for line in sample.TRAIN.read_text().splitlines() if line))
    (folder / "text.txt").write_text("\n".join(lines[:2_000]) + "\n")
    rows = [json.dumps({"id": f"r{place}", "text": text}) for place, text in enumerate(lines[: ROWS + ADDED])]
    (folder / "rows.jsonl").write_text("\n".join(rows[:ROWS]) + "\n")
    (folder / "more.jsonl").write_text("\n".join(rows[ROWS:]) + "\n")
    (folder / "sts" / "stsb").mkdir(parents=True)
    subset = TASKS["stsb"].subsets[0]
    (folder / "sts" / "stsb" / f"{subset}.tsv").write_text(sample.TEST.read_text())


def train(soak: Soak) -> str:
    """A run, killed up to three times and resumed; a hash of its weights."""
    out = soak.folder / "run"
    shutil.rmtree(out, ignore_errors=True)
    weights = out / "model.safetensors"
    if "train" in soak.seconds:
        for _ in range(3):
            again = ["--resume"] if any(out.glob("checkpoint*")) else ["--overwrite"] if out.exists() else []
            soak.resumed += again == ["--resume"]
            if not soak.killed("train", *TRAIN, *again):
                break
    if not weights.exists():
        again = ["--resume"] if any(out.glob("checkpoint*")) else ["--overwrite"] if out.exists() else []
        soak.resumed += again == ["--resume"]
        soak.run("train", *TRAIN, *again)
    return hashlib.sha256(weights.read_bytes()).hexdigest()


def evaluate(soak: Soak) -> dict[str, Any]:
    """The scores of the run's encoder."""
    soak.run("evaluate", "evaluate", "run", "--data", "sts", "--tasks", "stsb", "--json", "scores.json")
    scores: dict[str, Any] = json.loads((soak.folder / "scores.json").read_text())["sts"]
    return scores


def index(soak: Soak) -> list[tuple[str, float]]:
    """An index built, added to and deleted from, killed at each; the hits of a query."""
    shutil.rmtree(soak.folder / "index", ignore_errors=True)
    build = ["index", "build", "index", "run", "rows.jsonl", *NAMED]
    if "index build" not in soak.seconds or soak.killed("index build", *build):
        soak.run("index build", *build, *([] if "index build" not in soak.seconds else ["--overwrite"]))
    require(soak.info()["rows"] == ROWS, "the index does not hold what it was built of")
    add = ["index", "add", "index", "more.jsonl", *NAMED]
    if "index add" in soak.seconds:
        soak.killed("index add", *add)
        rows = soak.info()["rows"]
        require(rows in (ROWS, ROWS + ADDED), f"{rows} rows after a kill: neither all of the new ones nor none")
    if "index add" not in soak.seconds or rows == ROWS:
        soak.run("index add", *add)
    gone = [f"r{place}" for place in range(0, ROWS, 10)]
    soak.run("index delete", "index", "delete", "index", *gone)
    require(soak.info()["rows"] == ROWS + ADDED - len(gone), "rows are missing, or deleted ones still there")
    text = json.loads((soak.folder / "more.jsonl").read_text().splitlines()[0])["text"]
    soak.run("index query", "index", "query", "index", text, "-k", 10, "--json", "hits.json")
    hits = json.loads((soak.folder / "hits.json").read_text())["queries"][0]["hits"]
    require(hits[0]["id"] == f"r{ROWS}", "a row that was added is not found by its own text")
    require(not {hit["id"] for hit in hits} & set(gone), "a deleted row is found")
    return [(hit["id"], round(hit["score"], 5)) for hit in hits]


@contextmanager
def served(soak: Soak) -> Iterator[tuple[str, int]]:
    """A server of the first round's encoder and index; its address and process."""
    for name in ("run", "index"):
        shutil.copytree(soak.folder / name, soak.folder / f"served-{name}")
    command = [sys.executable, "-m", "opencse", "serve", "served-run", "--index", "served-index", "--port", "0"]
    process = subprocess.Popen(command, cwd=soak.folder, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        found = None
        for line in process.stderr:
            if found := re.search(r"(http://\S+)/ is the page", line):
                break
        require(found is not None, "the server did not start")
        assert found is not None
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield found[1], process.pid
    finally:
        process.terminate()
        require(process.wait(60) == 0, "the server did not end well")


def ask(address: str, texts: list[str]) -> str:
    """A hash of what the server answers to some requests for vectors and hits."""
    answers = hashlib.sha256()
    with httpx.Client(base_url=address, timeout=120) as client:
        for text in texts:
            vectors = client.post("/v1/embeddings", json={"model": "served-run", "input": [text]})
            hits = client.post("/search", json={"query": text, "k": 3})
            require(vectors.status_code == hits.status_code == 200, f"{vectors.text[:200]} {hits.text[:200]}")
            answers.update(json.dumps([vectors.json()["data"], hits.json()]).encode())
    return answers.hexdigest()


def resident(process: int) -> float:
    """MB that a process holds."""
    return int(re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{process}/status").read_text())[0]) / 1024


def main() -> None:
    """Rounds until the time is over, then what was counted."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    told = parser.parse_args()
    rounds = requests = 0
    with tempfile.TemporaryDirectory() as place:
        soak = Soak(Path(place), told.seed)
        prepare(soak.folder)
        texts = (soak.folder / "text.txt").read_text().splitlines()[:REQUESTS]
        first = (train(soak), evaluate(soak), index(soak))
        with served(soak) as (address, process):
            answers = ask(address, texts)
            held, started = [resident(process)], time.monotonic()
            while time.monotonic() - started < 60 * told.minutes:
                require((train(soak), evaluate(soak), index(soak)) == first, "a later round ends otherwise")
                for _ in range(4):
                    require(ask(address, texts) == answers, "the server answers otherwise than before")
                    requests += 2 * len(texts)
                held.append(resident(process))
                rounds += 1
                print(f"round {rounds}: {soak.kills} kills, server {held[-1]:.0f} MB", flush=True)
    require(rounds > 0, "no round was done in that time; give more --minutes")
    print(f"\n{(time.monotonic() - started) / 60:.1f} minutes, {rounds} rounds after the first: {soak.kills} kills -9, "
          f"{soak.resumed} resumed runs, {requests:,} requests; nothing lost.\n")  # fmt: skip
    print("| peak memory, MB | times | first | largest later |\n|---|--:|--:|--:|")
    peaks = {**soak.peaks, "serve (held)": held}
    for what, found in peaks.items():
        print(f"| {what} | {len(found)} | {found[0]:.0f} | {max(found[1:], default=found[0]):.0f} |")
    facts = {key: value for key, value in Environment.here("cpu").model_dump().items() if value is not None}
    facts["httpx"] = installed("httpx")
    print("\n" + ", ".join(f"{key} {value}" for key, value in facts.items()) + f", seed {told.seed}")
    grown = [what for what, found in peaks.items() if max(found) > GROWTH * found[0]]
    require(not grown, f"the memory of {grown} grew by more than a tenth")


if __name__ == "__main__":
    try:
        main()
    except LostError as lost:
        sys.exit(f"lost: {lost}")
