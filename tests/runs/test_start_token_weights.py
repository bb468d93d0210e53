"""`encoder.token_weights = "idf"` in a run: from the run's text, resumed, and one of the candidates that compete."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import Broken
from opencse import SentenceEncoder, UserError, train
from opencse.adapting.selection import DevScore
from opencse.adapting.selection_by_graded_pairs import GradedPairSelector
from opencse.errors import InterruptedRunError
from opencse.modules.token_weights import TokenWeights
from opencse.runs.start import weigh_tokens
from opencse.text import sample

LAYER = "encoder.layer.0.output.dense.weight"
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


@pytest.mark.slow
def test_a_resumed_run_is_the_same(start: Path, tmp_path: Path) -> None:
    whole = train(sample.TRAIN, tmp_path / "whole", model=str(start), settings=QUICK)
    with pytest.raises(InterruptedRunError):
        train(
            sample.TRAIN, tmp_path / "broken", model=str(start), settings=QUICK, progress=Broken(3, KeyboardInterrupt())
        )
    resumed = train(sample.TRAIN, tmp_path / "broken", model=str(start), settings=QUICK, resume=True)
    assert resumed.verdict == whole.verdict
    for name in ("model.safetensors", "metrics.jsonl"):
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.parametrize("best", ["start", "weights", "trained"])
def test_the_folder_holds_the_best_candidate_and_the_verdict_names_it(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, best: str
) -> None:
    """A start that is kept has exactly the vectors of the model that was given."""
    given = SentenceEncoder.load(start)
    texts = ["A dog runs in the snow.", "Rain fell."]

    def score(selector: GradedPairSelector, encoder: SentenceEncoder) -> DevScore:
        del selector
        trained = not torch.equal(encoder.backbone.state_dict()[LAYER], given.backbone.state_dict()[LAYER])
        kind = "trained" if trained else "start" if encoder.token_weights is None else "weights"
        return DevScore(80.0 if kind == best else 50.0)

    monkeypatch.setattr(GradedPairSelector, "score", score)
    monkeypatch.setattr(GradedPairSelector, "worse", lambda selector, trained, start: trained.value < start.value)
    result = train(sample.TRAIN, tmp_path / "out", model=str(start), settings=QUICK, dev="sample")
    kept, last = (SentenceEncoder.load(folder) for folder in (tmp_path / "out", tmp_path / "out" / "last"))
    assert (result.kept == "start") == (best == "start")
    assert (kept.token_weights is None) == (best == "start")
    assert last.token_weights is not None, "what was trained had them"
    assert np.array_equal(kept.encode(texts), given.encode(texts)) == (best == "start")
    expected = {"start": "the start is kept unchanged", "weights": "the untrained start with token weights is kept"}
    assert expected.get(best, "the best model is kept") in result.verdict
    same = torch.equal(kept.backbone.state_dict()[LAYER], given.backbone.state_dict()[LAYER])
    assert same == (best != "trained")


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
