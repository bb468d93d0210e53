"""benchmarks/make_e5.py writes a folder that opencse and sentence-transformers read with the same result."""

from __future__ import annotations

import importlib
import struct
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from opencse import SentenceEncoder

ROOT = Path(__file__).parents[1]
HIDDEN, WIDE = 32, 64
PIECES = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -2.0), ("query:", -3.0)]
PIECES += [("\u2581" + letter, -4.0) for letter in "abc"] + [(letter, -5.0) for letter in "abc"] + [("<mask>", 0.0)]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
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


def test_a_packed_model_becomes_a_folder(script: ModuleType, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    script.write(script.unpack(packed_file(np.random.default_rng(0))), tmp_path / "e5")
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


def test_a_block_holds_halves_of_bytes_times_a_scale(script: ModuleType) -> None:
    raw = np.frombuffer(np.float16(0.5).tobytes() + bytes([0x80 + number for number in range(16)]), np.uint8)
    assert script.weights_of(raw)[:16].tolist() == [0.5 * (number - 8) for number in range(16)]
    assert not script.weights_of(raw)[16:].any()


def test_another_file_is_refused(script: ModuleType) -> None:
    with pytest.raises(SystemExit, match="of the package"):
        script.unpack(b"GGUF" + bytes(100))
