"""`encoder.token_weights = "idf"` in a run: from the run's text, kept, resumed, held against the start as given."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import Broken
from opencse import SentenceEncoder, UserError, train
from opencse.encoder.fingerprint import fingerprint
from opencse.errors import InterruptedRunError
from opencse.modules.token_weights import TokenWeights
from opencse.runs import opened
from opencse.runs.start import weigh_tokens
from opencse.text import sample

IDF = "encoder.token_weights=idf"
QUICK = (IDF, "training.max_steps=4", "training.evaluate_every=2", "training.checkpoint_every=2",
         "training.batch_size=8", "training.precision=float32")  # fmt: skip


@pytest.fixture
def start(encoder: SentenceEncoder, tmp_path: Path) -> Path:
    """A start with a pooling of its own, mean."""
    encoder.save(tmp_path / "start")
    return tmp_path / "start"


def test_the_weights_are_those_of_the_text(start: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(["the one", "the two", "the three", "a long lake"]) + "\n")
    result = train(text, tmp_path / "out", model=str(start), settings=QUICK, dev="none")
    found = SentenceEncoder.load(tmp_path / "out").token_weights
    assert found is not None
    encoder = SentenceEncoder.load(start)
    texts = encoder.tokenize(["the one", "the two", "the three", "a long lake"])
    expected = TokenWeights.inverse_document_frequency(texts, encoder.tokenizer.vocabulary_size)
    assert torch.equal(found.weights, expected.weights)
    assert len(set(found.weights.tolist())) > 2
    assert any(line.startswith("weights ") for line in result.plan.lines())


def test_weights_of_the_start_are_named_where_it_is_compared_as_it_is(start: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(["the one", "the two", "the three", "a long lake"]) + "\n")
    train(text, tmp_path / "weighed", model=str(start), settings=QUICK, dev="none")
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("1\tthe one\tthe two\n2\tthe three\ta lake\n3\ta long lake\ta lake\n")
    for model, weights in ((start, ", all tokens weighted equally"), (tmp_path / "weighed", " and weights of tokens")):
        train(text, tmp_path / "out", model=str(model), settings=QUICK, dev=pairs, overwrite=True)
        given = json.loads((tmp_path / "out" / "run.json").read_text())["given"]
        assert given["pooling"] == f"mean{weights}"


@pytest.mark.slow
def test_a_resumed_run_is_the_same(start: Path, tmp_path: Path) -> None:
    whole = train(sample.TRAIN, tmp_path / "whole", model=str(start), settings=QUICK)
    with pytest.raises(InterruptedRunError):
        train(
            sample.TRAIN, tmp_path / "broken", model=str(start), settings=QUICK, progress=Broken(3, KeyboardInterrupt())
        )
    resumed = train(sample.TRAIN, tmp_path / "broken", model=str(start), settings=QUICK, resume=True)
    assert resumed.verdict == whole.verdict
    assert "own pooling mean, all tokens weighted equally" in whole.verdict
    for name in ("model.safetensors", "metrics.jsonl"):
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.slow
def test_weights_that_do_harm_are_not_kept(start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def harmful(encoder: SentenceEncoder, texts: object, *, explicit: bool) -> TokenWeights:
        del texts, explicit
        weights = torch.zeros(encoder.tokenizer.vocabulary_size)
        weights[encoder.tokenizer.hf.cls_token_id] = 1.0
        weights[encoder.tokenizer.hf.sep_token_id] = 1.0
        return TokenWeights(weights)

    monkeypatch.setattr(opened, "weigh_tokens", harmful)
    settings = [*QUICK, "training.learning_rate=1e-9"]
    result = train(sample.TRAIN, tmp_path / "out", model=str(start), settings=settings)
    assert result.kept == "given", result.verdict
    kept = SentenceEncoder.load(tmp_path / "out")
    assert kept.token_weights is None
    assert fingerprint(kept) == fingerprint(SentenceEncoder.load(start))
    last = SentenceEncoder.load(tmp_path / "out" / "last")
    assert last.token_weights is not None, "what was trained had them"


@pytest.mark.parametrize(("pooling", "layers", "why"), [("cls", None, "is no mean"), ("mean", 0, "no layers")])
def test_who_takes_no_weights(tiny_folder: Path, pooling: str, layers: int | None, why: str) -> None:
    encoder = SentenceEncoder.load(tiny_folder, pooling=pooling, layers=layers)
    assert weigh_tokens(encoder, [np.array([1, 2])], explicit=False) is None
    with pytest.raises(UserError, match=f"token_weights: this encoder has .*{why}.*; leave the setting out"):
        weigh_tokens(encoder, [np.array([1, 2])], explicit=True)


def test_own_is_as_the_start_has_it(start: Path, tmp_path: Path) -> None:
    encoder = SentenceEncoder.load(start)
    weights = torch.linspace(0.5, 1, encoder.tokenizer.vocabulary_size)
    encoder.token_weights = TokenWeights(weights)
    encoder.save(tmp_path / "weighed")
    settings = [*QUICK, "encoder.token_weights=own"]
    train(sample.TRAIN, tmp_path / "out", model=str(tmp_path / "weighed"), settings=settings, dev="none")
    found = SentenceEncoder.load(tmp_path / "out").token_weights
    assert found is not None
    assert torch.equal(found.weights, weights)
