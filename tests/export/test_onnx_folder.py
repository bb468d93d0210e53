"""ONNX exports: torch's vectors from onnxruntime, tokenizers and numpy alone."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import opencse
from helpers import Run, accepted, json_in, refused
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.evaluation.pairs import ScoredPairs
from opencse.export import onnx_folder
from opencse.export.onnx_folder import loss_of, write_graph
from opencse.export.runtime import OnnxEncoder
from opencse.modules.dense import Dense
from opencse.modules.parts import Parts
from opencse.modules.pooling import Pooling
from opencse.modules.prompts import Prompts
from opencse.statistics.correlation import cosine_of_rows
from opencse.text.tokenizer import Tokenizer
from prompted import LAYOUTS, write_prompted

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


DOCS = Path(__file__).parents[2] / "docs" / "export.md"
LIGHT = """import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "transformers", "opencse", "sentence_transformers"):
            raise ImportError(name + " is refused")

sys.meta_path.insert(0, Refused())
for name in ("torch", "opencse"):
    try:
        __import__(name)
    except ImportError:
        pass
    else:
        raise SystemExit(name + " could be imported, so this shows nothing")
"""


def family(name: str, tokenizer: Tokenizer, layers: int) -> SentenceEncoder:
    """An encoder of a family's shape, with weights so large that vectors of different texts differ much."""
    import transformers

    torch.manual_seed(3)
    config = getattr(transformers, f"{name}Config")(
        vocab_size=tokenizer.vocabulary_size,
        hidden_size=32,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=40,
        pad_token_id=tokenizer.pad_id,
    )
    backbone = getattr(transformers, f"{name}Model")(config, add_pooling_layer=False)
    with torch.no_grad():
        for weights in backbone.parameters():
            weights.add_(0.2 * torch.randn_like(weights))
    encoder = SentenceEncoder.from_parts(Parts(backbone, tokenizer, pooling=Pooling.MEAN, max_length=30))
    return encoder.eval()


def agree(folder: Path, encoder: SentenceEncoder, texts: list[str]) -> None:
    expected = encoder.encode(texts, normalize_embeddings=True)
    assert np.abs(expected - expected[0]).max() > 1e-2, "the texts have different vectors"
    assert np.abs(OnnxEncoder(folder).encode(texts) - expected).max() < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "pooling", "layers"),
    [
        ("Roberta", Pooling.LAST_TOKEN, 1),
        ("MPNet", Pooling.FIRST_LAST_1, 2),
    ],
)
def test_backbones_pooling_dense_layers_and_prompt(
    name: str, pooling: Pooling, layers: int, byte_level: Tokenizer, sentences: list[str], tmp_path: Path
) -> None:
    encoder = family(name, byte_level, layers)
    encoder.pooling = pooling
    encoder.dense.append(Dense(32, 7, "gelu"))
    encoder.prompts = Prompts({"default": "query: "}, "default")
    before = encoder.encode(sentences[:3])
    done = opencse.export_onnx(encoder, tmp_path, text=sentences[:20])
    assert np.array_equal(encoder.encode(sentences[:3]), before), "the encoder stays as it is"
    assert (done.dimension, done.int8) == (7, None)
    assert done.difference < 1e-5
    agree(tmp_path, encoder, [*sentences[20:50], "a", "", "long " * 60])
    exported = OnnxEncoder(tmp_path)
    one = exported.encode(sentences[0])
    assert one.shape == (7,)
    assert np.allclose(np.linalg.norm(one), 1, atol=1e-6)
    exported.prompts = Prompts()
    assert np.abs(exported.encode(sentences[0]) - one).max() > 1e-4, "the prompt counts"


@pytest.mark.slow
def test_the_example_runs_without_torch(opencse: Run, tmp_path: Path) -> None:
    """The page's twenty lines, in a process that refuses torch, transformers and opencse, on opencse-mini in int8."""
    (tmp_path / ".writing-1-exported").mkdir()  # as a kill before the final move leaves it
    command = ("export", "onnx", "opencse-mini", "--out", tmp_path / "exported", "--int8")
    out, err = accepted(opencse(*command))
    assert [path.name for path in tmp_path.iterdir()] == ["exported"]
    refused(opencse(*command), "holds an ONNX export already")
    assert out.strip() == str(tmp_path / "exported")
    assert {file.name for file in (tmp_path / "exported").iterdir()} == {
        "model.onnx",
        "tokenizer.json",
        "export.json",
        "README.md",
    }
    example = onnx_folder.EXAMPLE
    assert len(example.splitlines()) <= 24
    assert example in DOCS.read_text(encoding="utf-8")
    assert example in (tmp_path / "exported" / "README.md").read_text(encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", LIGHT + example], cwd=tmp_path, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    texts = re.findall(r'"([A-Z][^"]*\.)"', example)
    assert len(texts) == 3
    found = np.array(json.loads(done.stdout))
    expected = SentenceEncoder.load(device="cpu").similarity(texts, texts)
    assert np.abs(found - expected).max() < 0.06
    assert np.abs(found - expected).max() > 0, "int8 is not float32"
    about = json_in(tmp_path / "exported" / "export.json")
    assert about["precision"] == "int8"
    loss = about["int8"]
    assert 0.95 < loss["worst_cosine"] <= loss["cosine"] < 1
    assert f"{loss['int8']:.2f} on the built-in sample's test pairs" in err
    assert (tmp_path / "exported" / "model.onnx").stat().st_size < 9e6


@pytest.mark.slow
def test_a_graph_that_differs_is_not_written(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(given: SentenceEncoder, file: Path) -> None:
        other = given.twin()
        with torch.no_grad():
            next(other.parameters()).mul_(1.01)
        write_graph(other, file)

    encoder = SentenceEncoder.load(tiny_folder, device="cpu", layers=0)
    monkeypatch.setattr(onnx_folder, "write_graph", wrong)
    with pytest.raises(UserError, match="differs from torch by"):
        opencse.export_onnx(encoder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("opencse-mini", "--out", "full"), "full: is not empty"),
        (("opencse-mini", "--out", "x", "--int8", "--text", "two.txt"), "2 different texts to measure int8"),
    ],
)
def test_bad_input_in_one_line(
    opencse: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.txt").write_text("One.\nTwo.\nOne.\n")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").touch()
    code, out, err = opencse("export", "onnx", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "x").exists()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "onnxscript" else find(name, *rest)
    )
    with pytest.raises(UserError, match=r'needs onnxscript; pip install "opencse\[export\]"'):
        opencse.export_onnx("opencse-mini", tmp_path / "x")


@pytest.mark.slow
def test_queries_and_documents_have_their_prompts(tmp_path: Path, sentences: list[str]) -> None:
    folder = write_prompted(tmp_path / "model", "e5-default-query")
    encoder = SentenceEncoder.load(folder, device="cpu", layers=0)
    (tmp_path / "out").mkdir()
    opencse.export_onnx(encoder, tmp_path / "out", text=sentences[:20])
    about = json_in(tmp_path / "out" / "export.json")
    assert about["prompt"] == "query: "
    assert {key: about[key] for key in ("prompts", "default_prompt_name")} == LAYOUTS["e5-default-query"]
    exported, texts = OnnxEncoder(tmp_path / "out"), [*sentences[20:26], "a"]
    for given, expected in (
        (exported.encode(texts), encoder.encode(texts)),
        (exported.encode_query(texts), encoder.encode_query(texts)),
        (exported.encode_document(texts), encoder.encode_document(texts)),
        (exported.encode(texts, "document"), encoder.encode(texts, "document")),
        (exported.encode(texts, prompt="x "), encoder.encode(texts, prompt="x ")),
    ):
        assert np.abs(given - expected).max() < 1e-5
    with pytest.raises(UserError, match="no prompt 'passages'"):
        exported.encode(texts, "passages")
    assert "encode_document" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")


NUMBERED = [f"text {number}" for number in range(20)]
PAIRS = ScoredPairs("pairs", np.arange(10.0), NUMBERED[:10], NUMBERED[10:])


def exact(texts: Sequence[str]) -> NDArray[np.float32]:
    rows = [np.random.default_rng(int(text.split()[1])).standard_normal(8) for text in texts]
    return np.array(rows, dtype=np.float32)


def rounded(texts: Sequence[str]) -> NDArray[np.float32]:
    return np.round(exact(texts))


def test_the_loss_of_rounding() -> None:
    loss = loss_of(exact, rounded, NUMBERED, PAIRS)
    cosines = cosine_of_rows(exact(NUMBERED), rounded(NUMBERED))
    assert loss.cosine == pytest.approx(cosines.mean())
    assert loss.worst_cosine == pytest.approx(cosines.min())
    assert loss.worst_cosine < loss.cosine < 1
    assert loss.ranking < 100
    first, second = loss.lines()
    assert f"{loss.cosine:.4f} on average" in first
    assert f"{loss.int8 - loss.float32:+.2f}" in second


pytest.importorskip("onnxruntime")


def test_a_foreign_folder_is_no_export(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be opened as an ONNX export"):
        OnnxEncoder(tmp_path)
    (tmp_path / "export.json").write_text("[]")
    with pytest.raises(UserError, match="cannot be opened as an ONNX export"):
        OnnxEncoder(tmp_path)
