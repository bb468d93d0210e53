"""The scripts of benchmarks/: collections and models that they make, records that they write, pages drawn from them."""

from __future__ import annotations

import asyncio
import gzip
import importlib
import json
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from opencse import SentenceEncoder
from opencse.evaluation.retrieval.data import load_retrieval
from opencse.ranking import nearest_prepared

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]


@pytest.fixture
def makers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    return importlib.import_module("make_collections")


def collection(makers: Any, monkeypatch: pytest.MonkeyPatch, out: Path, *arguments: object) -> Any:
    """The retrieval task that a command writes."""
    monkeypatch.setattr(
        sys, "argv", ["make_collections.py", *map(str, arguments), str(out), "--queries", "2", "--pairs", "1"]
    )
    makers.main()
    return next(iter(load_retrieval(out).tasks.values()))


def sentence(number: int, words: int) -> str:
    return " ".join(f"{WORDS[index % 10]}{number}" for index in range(words))


def test_packages(makers: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = tmp_path / "descriptions.txt"
    one = "Package: p{0}\nDescription-md5: x\nDescription-en: {1}\n {2}\n .\n {3}\n"
    source.write_text("\n".join(one.format(n, f"title {n} of four", sentence(n, 20), sentence(n, 9)) for n in range(4)))
    task = collection(makers, monkeypatch, tmp_path / "out", "packages", source)
    assert list(task.queries) == ["title 0 of four", "title 2 of four"]
    assert len(task.documents) == 4


def test_manuals(makers: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "pages" / "man" / "man3"
    folder.mkdir(parents=True)
    for n in range(3):
        text = f".SH NAME\nname{n} \\- check the stream {n}\n.SH DESCRIPTION\n.nf\ncode\n.fi\n{sentence(n, 30)}\n"
        (folder / f"name{n}.3.gz").write_bytes(gzip.compress(text.encode()))
    task = collection(makers, monkeypatch, tmp_path / "out", "manuals", tmp_path / "pages")
    assert list(task.queries) == ["check the stream 0", "check the stream 1"]
    assert not any("code" in document or "check" in document for document in task.documents)


def test_dictionary(makers: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    entries = "".join(f"word{n}\n   The meaning of the {n}th word. {sentence(n, 25)}\n\n" for n in range(3))
    source = tmp_path / "foldoc.dict.dz"
    source.write_bytes(gzip.compress(entries.encode()))
    task = collection(makers, monkeypatch, tmp_path / "out", "dictionary", source)
    assert list(task.queries) == ["The meaning of the 0th word.", "The meaning of the 1th word."]


ROOT = Path(__file__).parents[1]


HIDDEN, WIDE = 32, 64


PIECES = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -2.0), ("query:", -3.0)]


PIECES += [("\u2581" + letter, -4.0) for letter in "abc"] + [(letter, -5.0) for letter in "abc"] + [("<mask>", 0.0)]


@pytest.fixture
def make_e5(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("make_e5")


def packed_file(rng: np.random.Generator) -> bytes:
    """A model of one layer as the package has it."""
    sizes = {"word": HIDDEN * len(PIECES), "pos": HIDDEN * 16, "type": HIDDEN * 2}
    layer = {"q": HIDDEN, "k": HIDDEN, "v": HIDDEN, "ao": HIDDEN, "fi": WIDE, "fo": HIDDEN}
    tensors: list[tuple[str, int, int, bytes]] = []

    def add(name: str, size: int, *, packed: bool) -> None:
        blocks = size // 32
        halves = rng.integers(0, 256, (blocks, 16), dtype=np.uint8)
        raw = b"".join(np.float16(0.05).tobytes() + row.tobytes() for row in halves)
        plain = rng.normal(size=size).astype("<f4").tobytes()
        tensors.append((name, int(packed), size, raw if packed else plain))

    for name, size in sizes.items():
        add(f"emb.{name}", size, packed=name == "word")
    for name in ("emb.ln", "l0.aln", "l0.oln"):
        add(f"{name}.w", HIDDEN, packed=False)
        add(f"{name}.b", HIDDEN, packed=False)
    for name, rows in layer.items():
        add(f"l0.{name}.w", rows * (WIDE if name == "fo" else HIDDEN), packed=True)
        add(f"l0.{name}.b", rows, packed=False)
    texts = [piece.encode() for piece, _ in PIECES]
    ends = np.cumsum([0, *map(len, texts)]).astype("<u4")
    head = struct.pack("<4sI7ifi", b"E5S1", 1, HIDDEN, 1, 2, WIDE, len(PIECES), 16, 2, 1e-12, 32)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, int(ends[-1])) + ends.tobytes()
    head += np.array([score for _, score in PIECES], "<f4").tobytes() + b"".join(texts)
    characters = struct.pack("<IBI", 0x200B, 1, 0x20) + struct.pack("<IBI", 0xFF41, 1, 0x61)
    head += struct.pack("<iI", 2, len(characters)) + characters + struct.pack("<i", len(tensors))
    first = len(head) + sum(2 + len(name) + 1 + 4 + 16 for name, *_ in tensors)
    for name, is_packed, size, raw in tensors:
        head += struct.pack("<H", len(name)) + name.encode() + struct.pack("<BIQQ", is_packed, size, first, len(raw))
        first += len(raw)
    return head + b"".join(raw for *_, raw in tensors)


def test_a_packed_model_becomes_a_folder(make_e5: ModuleType, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    make_e5.write(make_e5.unpack(packed_file(np.random.default_rng(0))), tmp_path / "e5")
    encoder, other = SentenceEncoder.load(tmp_path / "e5", device="cpu"), SentenceTransformer(str(tmp_path / "e5"))
    texts = ["abc a", "\uff41bc", "b\u200bcab"]
    queries, documents = encoder.encode_query(texts), encoder.encode_document(texts)
    assert np.abs(queries - other.encode_query(texts)).max() < 1e-5
    assert np.abs(documents - other.encode_document(texts)).max() < 1e-5
    assert np.abs(queries - documents).max() > 0.01
    assert np.linalg.norm(queries, axis=1) == pytest.approx(1.0, abs=1e-5)
    tokenizer = encoder.tokenizer.hf
    assert tokenizer.tokenize("\uff41bc") == tokenizer.tokenize("abc")
    assert tokenizer.tokenize("b\u200bcab") == tokenizer.tokenize("b cab")


def test_a_block_holds_halves_of_bytes_times_a_scale(make_e5: ModuleType) -> None:
    raw = np.frombuffer(np.float16(0.5).tobytes() + bytes([0x80 + number for number in range(16)]), np.uint8)
    assert make_e5.weights_of(raw)[:16].tolist() == [0.5 * (number - 8) for number in range(16)]
    assert not make_e5.weights_of(raw)[16:].any()


RECORDS = ROOT / "docs" / "results" / "records"


PICTURE = RECORDS.parent / "figures" / "growth.svg"


@pytest.fixture
def growth(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("growth")


def test_the_picture_shows_every_curve_that_has_a_record(growth: Any) -> None:
    shown = growth.panels(RECORDS)
    assert len(shown) >= 4
    text = PICTURE.read_text(encoding="utf-8")
    for panel in shown:
        assert panel.title in text, "run benchmarks/growth.py (the command is on docs/results/scale.md)"
        for name in panel.curves:
            assert f">{name}<" in text, "run benchmarks/growth.py (the command is on docs/results/scale.md)"
    assert ("Search, by rows" in text) == (RECORDS / "search-peers.json").exists()
    assert ("Server, by clients" in text) == (RECORDS / "serving-clients.json").exists()


PAGE = ROOT / "docs" / "results" / "speed.md"


SPEED_RECORDS = sorted((PAGE.parent / "records").glob("speed-[0-9]*.json"))


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("page")


def test_the_table_is_up_to_date(page: Any) -> None:
    records = [json.loads(path.read_text(encoding="utf-8")) for path in SPEED_RECORDS]
    assert len(records) == 5
    text = PAGE.read_text(encoding="utf-8")
    assert page.fill(PAGE, records) == text, "run benchmarks/page.py (the command is on the page)"
    assert all(path.name in text for path in SPEED_RECORDS)


@pytest.mark.parametrize("name", ["serving", "search"])
def test_the_table_of_peers_is_up_to_date(page: Any, name: str) -> None:
    path, record = PAGE.with_name(f"{name}.md"), PAGE.parent / "records" / f"{name}-peers.json"
    text = path.read_text(encoding="utf-8")
    assert text.count(page.BEGIN) == text.count(page.END) == 1
    assert f"records/{name}-peers.json" in text
    if record.exists():
        filled = page.fill(path, [json.loads(record.read_text(encoding="utf-8"))])
        assert filled == text, "run benchmarks/page.py (the command is on the page)"
    else:
        assert f"{page.BEGIN}\n\nNot measured yet.\n\n{page.END}" in text


BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


ROWS = ("step", "encode", "layers", "loss", "start_up", "first_answer", "loading")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The benchmark, its work replaced by a clock that goes on: both sides take 50 ms, and as much is stored."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    quick: Any = importlib.import_module("quick")
    paired: Any = importlib.import_module("rows").paired

    now = 0.0

    def work(seconds: float) -> None:
        nonlocal now
        now += seconds

    def timed(name: str) -> Callable[..., Any]:
        def ours(turn: int) -> None:
            work(seconds.get(name, 0.05))

        return lambda *_: paired(name, ours, lambda turn: work(0.05), size=1, unit="", turns=3, clock=lambda: now)

    seconds: dict[str, float] = {}
    for name in ROWS:
        monkeypatch.setattr(quick, name, timed(name))
    monkeypatch.setattr(quick, "shaped", lambda shape, folder: str(folder))
    monkeypatch.setattr(quick, "STORED", tmp_path / "quick.json")
    monkeypatch.setattr(quick.torch, "set_num_threads", lambda threads: None)
    monkeypatch.setattr(sys, "argv", ["quick.py"])
    quick.STORED.write_text(json.dumps(dict.fromkeys(ROWS, 1.0)))
    return quick, seconds


def test_what_got_slower_is_named(quick: Any, capsys: pytest.CaptureFixture[str]) -> None:
    quick[1]["encode"] = 0.15
    with pytest.raises(SystemExit) as ended:
        quick[0].main()
    assert ended.value.code == 1
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("slower")]
    assert len(told) == 1
    assert told[0].startswith("slower: encode: 0.")


def test_every_measured_row_has_a_stored_ratio() -> None:
    script = (BENCHMARKS / "quick.py").read_text(encoding="utf-8")
    stored = json.loads((BENCHMARKS / "quick.json").read_text(encoding="utf-8"))
    functions = script.count(" = paired(") + script.count("return paired(")
    answers = script.split("FIRST_ANSWERS = {")[1].split("\n}")[0].count("compared with Python")
    assert answers == 3
    assert len(stored) == functions - 1 + answers
    assert [name for name in stored if f'"{name}"' not in script] == []


@pytest.fixture
def search_peers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("search_peers")


@pytest.mark.skipif(not find_spec("faiss") or not find_spec("threadpoolctl"), reason="needs faiss and threadpoolctl")
@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_both_sides_search_the_same(
    search_peers: Any, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opencse.search.approximate.FEWEST", 256)
    vectors, queries = search_peers.clustered(tmp_path / "vectors", 600, 16, seed=0)
    exact, _ = nearest_prepared(queries, vectors, 10)
    row = search_peers.measured(kind, vectors, queries, exact, breadth=40, turns=1, seconds=60)
    ours, other = row["recall"]["opencse"], row["recall"]["faiss"]
    assert ours == other == 1 if kind == "flat" else 0.6 < other <= ours + 0.05
    assert row["breadth_build"] == (40 if kind == "hnsw" else None)
    assert row["bytes"]["opencse"] >= vectors.nbytes
    assert (row["bytes"]["faiss"] > vectors.nbytes) == (kind != "flat")
    assert row["one"]["ours"] > 0
    assert row["together"]["peer"] > 0
    cells = search_peers.table([{"rows": [row]}]).splitlines()[2].split(" | ")
    assert cells[0] == "| 600"


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
def serving_peers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("serving_peers")


def test_requests_are_counted_and_answers_compared(serving_peers: Any, answering: Answering) -> None:
    server = serving_peers.Server("one", "fast", ())
    row = serving_peers.measured(server, answering.port, 3, 0.3, TEXTS, VECTORS)
    assert (row["server"], row["settings"], row["clients"]) == ("one", "fast", 3)
    assert row["requests"] >= row["compared"] >= 1
    assert row["rate"] > 0
    assert 0 < row["p50"] <= row["p99"]
    assert row["furthest"] == 0
    assert answering.connections == 3  # each client keeps its connection


def test_another_vector_ends_the_measurement(serving_peers: Any, answering: Answering) -> None:
    with pytest.raises(SystemExit, match=r"one \(fast\): a vector is 1.0 away from the offline one"):
        serving_peers.measured(serving_peers.Server("one", "fast", ()), answering.port, 1, 0.2, TEXTS, VECTORS[::-1])
