"""Commands that only need the vectors of word vectors import no torch, and give the vectors that torch gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import opencse
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.opening import open_text_encoder
from opencse.encoder.static import StaticEncoder

TEXTS = ["A cat sleeps on the mat.", "Rain falls.", "The kettle boils.", "word " * 200]
HEAVY = ("torch", "transformers", "sklearn", "pandas", "datasets", "matplotlib")
PROGRAM = """
import json, sys
from opencse.cli import main

commands = json.loads(sys.argv[1])
for arguments in commands:
    sys.argv = ["opencse", *arguments]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (arguments, end.code)
print("loaded", *[name for name in json.loads({heavy!r}) if name in sys.modules])
"""


def loaded_by(folder: Path, *commands: list[str]) -> list[str]:
    """The heavy packages that commands load, all in one new process."""
    program = PROGRAM.format(heavy=json.dumps(HEAVY))
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(commands)],
        env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[-1].split()[1:]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return tmp_path


def test_no_command_of_the_built_in_encoder_loads_torch(folder: Path) -> None:
    commands = [
        ["similarity", "opencse-mini", *TEXTS],
        ["encode", "opencse-mini", "texts.txt", "--out", "vectors.npy"],
        ["encode", "opencse-mini", "texts.txt", "--out", "vectors"],
        ["index", "build", "index", "opencse-mini", "texts.txt", "--no-cut"],
        ["index", "query", "index", "a hot drink", "--json", "hits.json"],
        ["index", "query", "index", "a hot drink", "--hybrid"],
        ["nearest", "opencse-mini", "--corpus", "texts.txt", "--query", "a hot drink"],
    ]
    assert loaded_by(folder, *commands) == []
    expected = SentenceEncoder.load("opencse-mini", device="cpu").encode(TEXTS)
    np.testing.assert_array_equal(np.load(folder / "vectors.npy"), expected)
    hits = json.loads((folder / "hits.json").read_text(encoding="utf-8"))["queries"][0]["hits"]
    assert len(hits) == len(TEXTS)


def test_a_network_is_loaded_where_there_is_one(folder: Path, tiny_folder: Path) -> None:
    assert "torch" in loaded_by(folder, ["similarity", str(tiny_folder), *TEXTS])
    assert not isinstance(open_text_encoder(tiny_folder), StaticEncoder)


def test_an_export_next_to_a_network_is_used_for_a_few_texts(folder: Path, tiny_folder: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    encoder = SentenceEncoder.load(tiny_folder, device="cpu", pooling="mean")
    encoder.normalize = True
    encoder.save(folder / "model")
    opencse.export_onnx(folder / "model", folder / "model-onnx")
    opencse.build_index(folder / "index", folder / "model", TEXTS, cut=False, device="cpu")
    commands = [["similarity", "model", *TEXTS], ["index", "query", "index", "a hot drink", "--json", "hits.json"]]
    assert loaded_by(folder, *commands) == []
    assert len(json.loads((folder / "hits.json").read_text(encoding="utf-8"))["queries"][0]["hits"]) == len(TEXTS)
