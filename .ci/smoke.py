"""Tries an installed package, from outside of its repository: python .ci/smoke.py [EXTRA]."""

import subprocess
import sys
import tempfile
from pathlib import Path

extra = sys.argv[1] if len(sys.argv) > 1 else ""
command = str(Path(sys.executable).with_name("opencse"))


def run(*arguments: str) -> str:
    """What a command prints; its failure is this script's."""
    return subprocess.run([command, *arguments], check=True, capture_output=True, text=True).stdout


with tempfile.TemporaryDirectory() as folder:
    text = Path(folder) / "text.txt"
    text.write_text("".join(f"Sentence number {i} is about topic {i % 7}.\n" for i in range(64)))
    model = str(Path(folder) / "model")
    assert "adapt" in run("--help")
    assert "no trouble found" in run("doctor")
    quick = ["--set", "training.max_steps=2", "--set", "training.batch_size=8", "--dev", "none", "--no-report"]
    run("train", str(text), "--out", model, *quick)
    assert run("similarity", model, "a cat", "a cat").startswith("1.0000")
    if extra == "train":
        run("train", str(text), "--out", str(Path(folder) / "second"), *quick[:-1])
        assert (Path(folder) / "second" / "report.html").is_file()
    if extra == "serve":
        run("index", "build", str(Path(folder) / "index"), model, str(text))
        run("serve", "--help")
    if extra == "export":
        run("export", "onnx", model, "--out", str(Path(folder) / "onnx"))
