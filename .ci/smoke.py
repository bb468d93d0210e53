"""Tries an installed package, from outside of its repository: python .ci/smoke.py [EXTRA,EXTRA...]."""

import json
import re
import subprocess
import sys
import tempfile
import urllib.request
from importlib.metadata import distribution
from pathlib import Path

given = sys.argv[1] if len(sys.argv) > 1 else ""
extras = set(filter(None, given.split(",")))
command = str(Path(sys.executable).with_name("opencse"))
QUICK = ["--set", "training.max_steps=2", "--set", "training.batch_size=8", "--dev", "none"]


def run(*arguments: object, fails: bool = False) -> str:
    """What a command prints, on both streams; it must succeed, or where it `fails` be refused in one line."""
    done = subprocess.run([command, *map(str, arguments)], capture_output=True, text=True, check=False)
    told = done.stdout + done.stderr
    if done.returncode != (2 if fails else 0):
        sys.exit(f"opencse {' '.join(map(str, arguments))} ended with {done.returncode}:\n{told}")
    assert "Traceback" not in told, told
    return told


def package() -> None:
    """The wheel's own files: types, licence, and the built-in encoder with its origin."""
    files = {str(file) for file in distribution("opencse").files or []}
    assert "opencse/py.typed" in files
    assert any(file.endswith("licenses/LICENSE") for file in files), "no licence"
    (card,) = (file for file in distribution("opencse").files or [] if str(file).endswith("opencse-mini/README.md"))
    assert "Apache-2.0" in card.read_text(encoding="utf-8")
    assert "Wikipedia" in card.read_text(encoding="utf-8")


def everywhere(folder: Path, text: Path) -> Path:
    """What needs no extra: look, train, encode, search exactly; the trained model."""
    assert "adapt" in run("--help")
    assert "no trouble found" in run("doctor")
    run("check", text)
    model = folder / "model"
    told = run("train", text, "--out", model, *QUICK)
    assert ("need matplotlib" in told) == ("train" not in extras), told
    assert (model / "report.html").is_file() == ("train" in extras)
    assert run("similarity", model, "a cat", "a cat").startswith("1.0000")
    run("encode", model, text, "--out", folder / "vectors.npy")
    assert (folder / "vectors.npy").stat().st_size > 64 * 4
    run("index", "build", folder / "index", model, text)
    assert "Sentence number 5 " in run("index", "query", folder / "index", "Sentence number 5 is about topic 5.")
    return model


def answers(model: Path, index: Path) -> None:
    """A server that gives vectors, finds a sentence, and has a page."""
    process = subprocess.Popen(
        [command, "serve", str(model), "--index", str(index), "--port", "0"], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        told, found = "", None
        while found is None:
            line = process.stderr.readline()
            assert line, f"the server did not start:\n{told}"
            told += line
            found = re.search(r"(http://\S+)/ is the page", line)
        for path, body in (
            ("/", None),
            ("/v1/embeddings", {"model": model.name, "input": ["a cat"]}),
            ("/search", {"query": "topic 5", "k": 1}),
        ):
            data = None if body is None else json.dumps(body).encode()
            asked = urllib.request.Request(found[1] + path, data=data, headers={"Content-Type": "application/json"})
            with urllib.request.urlopen(asked, timeout=60) as answer:
                assert len(answer.read()) > 50
    finally:
        process.terminate()
        ended = process.wait(60)
    assert ended == 0, f"the server ended with {ended}"


with tempfile.TemporaryDirectory() as place:
    folder = Path(place)
    text = folder / "text.txt"
    text.write_text("".join(f"Sentence number {i} is about topic {i % 7}.\n" for i in range(64)), encoding="utf-8")
    package()
    model = everywhere(folder, text)
    if "train" in extras:
        run("analyze", model, "--text", text, "--out", folder / "page")
    assert "Sentence number 5 " in run("index", "query", folder / "index", "number 5", "--hybrid")
    if "serve" in extras:
        run("index", "build", folder / "fast", model, text, "--kind", "hnsw")
        answers(model, folder / "index")
    else:
        assert 'pip install "opencse[serve]"' in run("serve", model, fails=True)
    if "export" in extras:
        run("export", "onnx", model, "--out", folder / "onnx")
    else:
        assert 'pip install "opencse[export]"' in run("export", "onnx", model, "--out", folder / "onnx", fails=True)
    if "dedup" in extras:
        assert "nearly repeat" in run("check", text, "--near-duplicates", "0.5")
