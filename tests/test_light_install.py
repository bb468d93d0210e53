"""What is imported, and what needs packages that are not installed."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import opencse
from opencse.environment import Environment, installed, missing_packages, require_packages
from opencse.errors import UserError

ROOT = Path(__file__).resolve().parents[1]


OPTIONAL = ("datasets", "matplotlib", "pandas", "pyarrow", "scipy", "sklearn")


LIGHT = f"import sys\nfor name in {OPTIONAL}:\n    sys.modules[name] = None\n"


"""As if they were not installed: neither imported nor found, whatever asks."""


USE = """
import asyncio, warnings
from pathlib import Path

import httpx
import opencse
from opencse.progress import Silent
from opencse.serving.app import create_app
from opencse.serving.requests import Limits
from opencse.serving.service import Service
from opencse.text import sample

work = Path(sys.argv[1])
texts = list(dict.fromkeys(filter(None, sample.TRAIN.read_text(encoding="utf-8").split("\\n"))))[:60]
encoder = opencse.SentenceEncoder.load("opencse-mini", device="cpu")
assert encoder.encode(texts).shape == (60, encoder.dimension)
assert len(opencse.similarity(encoder, "a cat", ["a cat", "a train"])) == 2
built = opencse.build_index(work / "index", encoder, texts)
assert opencse.query_index(work / "index", ["a cup of tea"], model=encoder, k=3)
(work / "text.txt").write_text("\\n".join(texts), encoding="utf-8")
index = opencse.Index.open(work / "index", encoder=encoder)


async def ask():
    app = create_app(Service({"mini": encoder}, {"mini": index}, limits=Limits(), cut=True), keys=[], hosts=None)
    async with app.router.lifespan_context(app):
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            given = await client.post("/v1/embeddings", json={"model": "mini", "input": ["a cat", "a dog"]})
            drawn = await client.get("/map")
            refused = await client.get("/map?method=tsne")
    assert len(given.json()["data"]) == 2, given.text
    assert len(drawn.json()["points"]) == 60, drawn.text
    assert refused.status_code == 400, refused.text
    assert refused.json()["error"]["message"] == 'tsne needs scikit-learn; pip install "opencse[train]"'


asyncio.run(ask())
said = []


class Heard(Silent):
    def say(self, line):
        said.append(line)


steps = ["training.max_steps=2", "training.batch_size=8"]
trained = opencse.train(work / "text.txt", work / "model", settings=steps, dev="sample", report=True, progress=Heard())
assert 0 in trained.scores and 2 in trained.scores
assert 'report     none: its pictures need matplotlib; pip install "opencse[train]"' in said, said
assert opencse.SentenceEncoder.load(work / "model").dimension == encoder.dimension
print("used")
"""


REFUSED = """
from opencse.evaluation.models.words import WordVectors

work /= "refused"
work.mkdir()
(work / "x.parquet").write_bytes(b"PAR1")
(work / "x.txt.zst").write_bytes(b"no zstd")
calls = {
    "Hub data set": lambda: opencse.check("owner/name"),
    "Parquet": lambda: opencse.check(work / "x.parquet"),
    "zstd": lambda: opencse.check(work / "x.txt.zst"),
    "shards": lambda: opencse.encode("opencse-mini", sample.TRAIN, work / "v", file_format="parquet"),
    "demo": lambda: opencse.demo(work / "demo"),
    "analyze": lambda: opencse.analyze("opencse-mini", work / "page"),
    "compare": lambda: opencse.compare(sample.TRAIN, work / "c", ["simcse"], work),
    "reproduce": lambda: opencse.reproduce("simcse:bert-base", sample.TRAIN, work / "r", work),
    "static": lambda: opencse.static(sample.TRAIN, work / "s"),
    "distil": lambda: opencse.export_static("opencse-mini", work / "d", corpus=sample.TRAIN),
    "hub STS": lambda: opencse.evaluate("opencse-mini", "hub"),
    "words": lambda: WordVectors.load(work / "w.txt"),
}
for name, call in calls.items():
    try:
        call()
    except opencse.UserError as error:
        print(f"{name}: {error}")
print(sorted(path.name for path in work.iterdir()))
"""


@pytest.mark.slow
def test_without_the_optional_packages_a_model_is_used_and_what_needs_them_says_which_extra_brings_them(
    tmp_path: Path,
) -> None:
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", LIGHT + USE + REFUSED, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    *lines, left = done.stdout.partition("used\n")[2].splitlines()
    assert len(lines) == 12
    for line in lines:
        assert re.search(r' needs? [a-z, -]+; pip install "opencse\[train\]"$', line), line
    assert left == "['x.parquet', 'x.txt.zst']"  # refused before anything was written


def test_the_optional_packages_are_those_of_the_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    always = " ".join(project["dependencies"])
    extra = " ".join(project["optional-dependencies"]["train"])
    for name in ("datasets", "matplotlib", "pyarrow", "scipy", "scikit-learn"):
        assert name in extra
        assert name not in always


PACKAGE = Path(opencse.__file__).parent


@pytest.mark.slow
def test_import_of_the_package_is_light() -> None:
    program = "import sys, opencse\nassert opencse.__version__\nprint(*sys.modules)"
    environment = {"PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "opencse" in loaded
    heavy = {"torch", "transformers", "numpy", "datasets", "pydantic", "matplotlib", "tokenizers", "huggingface_hub"}
    assert not loaded & heavy


def test_this_process() -> None:
    environment = Environment.here("cpu")
    assert (environment.python, environment.device) == (platform.python_version(), "cpu")
    assert environment.numpy == installed("numpy")
    assert installed("no-such-package") is None


def test_missing_packages_are_named_as_they_are_installed() -> None:
    assert missing_packages("json", "no_such_module") == ["no_such_module"]
    require_packages("this", "train", "json")
    with pytest.raises(UserError, match=r'this needs no_such_module; pip install "opencse\[train\]"'):
        require_packages("this", "train", "no_such_module")
