"""Commands that only need the vectors of word vectors import no torch, and give the vectors that torch gives."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import opencse
from helpers import json_in, write_lines
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.opening import load
from opencse.encoder.static import StaticEncoder
from opencse.model_folder.locate import builtin_folder

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


def loaded_by(folder: Path, *commands: list[str]) -> list[list[str]]:
    """The heavy packages that have been loaded after each of the commands, all in one new process."""
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
    return [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("loaded")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_lines(tmp_path / "texts.txt", TEXTS)
    task = tmp_path / "retrieval" / "tea"
    (task / "qrels").mkdir(parents=True)
    rows = [json.dumps({"_id": str(number), "text": text}) for number, text in enumerate(TEXTS)]
    (task / "corpus.jsonl").write_text("\n".join(rows), encoding="utf-8")
    (task / "queries.jsonl").write_text('{"_id": "q", "text": "a hot drink"}\n', encoding="utf-8")
    (task / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\t2\t1\n", encoding="utf-8")
    return tmp_path


@pytest.mark.slow
def test_no_command_of_the_built_in_encoder_loads_torch(folder: Path) -> None:
    commands = [
        ["similarity", "opencse-mini", *TEXTS],
        ["encode", "opencse-mini", "texts.txt", "--out", "vectors.npy"],
        ["encode", "opencse-mini", "texts.txt", "--out", "vectors"],
        ["index", "build", "index", "opencse-mini", "texts.txt", "--no-cut"],
        ["index", "query", "index", "a hot drink", "--json", "hits.json"],
        ["index", "query", "index", "a hot drink", "--hybrid"],
        ["index", "add", "index", "texts.txt"],
        ["index", "duplicates", "index"],
        ["index", "build", "tuned", "opencse-mini", "long.txt"],
        [
            "questions",
            "long.txt",
            "--endpoint",
            "http://localhost:9",
            "--model",
            "m",
            "--out",
            "asked.jsonl",
            "--dry-run",
        ],
        ["nearest", "opencse-mini", "--corpus", "texts.txt", "--query", "a hot drink"],
        ["evaluate", "opencse-mini", "--suite", "retrieval", "--data", "."],
        ["calibrate", "model", "texts.txt"],
        ["similarity", "model", *TEXTS],
        ["check", "texts.txt"],
        ["check", "pairs.tsv", "--model", "model", "--json", "check.json"],
        ["recipes"],
        ["recipes", "show", "simcse", "--source"],
    ]
    pairs = [f"Is kettle {n} new?\tThe kettle {n} was bought today." for n in range(20)]
    write_lines(folder / "pairs.tsv", ["anchor\tpositive", *pairs])
    long = [f"The kettle number {n} is made of steel. It boils {n} cups of water at once." for n in range(24)]
    write_lines(folder / "long.txt", long)
    shutil.copytree(builtin_folder(), folder / "model")
    assert loaded_by(folder, *commands)[-1] == []
    expected = SentenceEncoder.load("opencse-mini", device="cpu").encode(TEXTS)
    np.testing.assert_array_equal(np.load(folder / "vectors.npy"), expected)
    hits = json_in(folder / "hits.json")["queries"][0]["hits"]
    assert len(hits) == len(TEXTS)
    checked = json_in(folder / "check.json")
    assert (checked["rows"], checked["max_length"]) == (20, 32)
    assert "--recipe simcse-supervised" in checked["command"]


@pytest.mark.slow
def test_an_encoder_of_word_vectors_is_served_without_torch() -> None:
    pytest.importorskip("fastapi")
    program = """
import asyncio, sys
import opencse
from opencse.serving.requests import Limits
from opencse.serving.guard import Metrics
from opencse.serving.served_model import ServedModel

async def vectors():
    served = ServedModel("mini", opencse.load(), Limits(), Metrics())
    read = await served.read(["A kettle boils.", "Rain falls."], prompt="", truncate=True)
    made = await served.vectors(read)
    served.close()
    return made

made = asyncio.run(vectors())
print(abs(made - opencse.load().encode(["A kettle boils.", "Rain falls."])).max() < 1e-6, "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True", "False"], done.stderr[-3000:]


@pytest.mark.slow
def test_a_bert_is_asked_for_a_few_texts_without_torch(folder: Path, tiny_folder: Path) -> None:
    opencse.build_index(folder / "index", tiny_folder, TEXTS, cut=False, device="cpu")
    commands = [
        ["similarity", str(tiny_folder), *TEXTS],
        ["index", "query", "index", "a hot drink"],
        ["check", "texts.txt", "--model", str(tiny_folder)],
    ]
    assert loaded_by(folder, *commands) == [[]] * 3
    assert not isinstance(load(tiny_folder), StaticEncoder)


@pytest.mark.slow
def test_an_export_next_to_a_network_is_used_for_a_few_texts(folder: Path, tiny_folder: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    encoder = SentenceEncoder.load(tiny_folder, device="cpu", pooling="mean", layers=1)
    encoder.normalize = True
    encoder.save(folder / "model")
    opencse.export_onnx(folder / "model", folder / "model-onnx")
    opencse.build_index(folder / "index", folder / "model", TEXTS, cut=False, device="cpu")
    commands = [["similarity", "model", *TEXTS], ["index", "query", "index", "a hot drink", "--json", "hits.json"]]
    assert loaded_by(folder, *commands)[-1] == []
    assert len(json_in(folder / "hits.json")["queries"][0]["hits"]) == len(TEXTS)
