"""The card of every folder that is written: valid for the Hub, true of the encoder, and runnable as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

import opencse
from opencse.encoder.card import front_matter
from opencse.encoder.encoder import SentenceEncoder
from opencse.model_folder.layout import THIS_FOLDER
from opencse.runs.card import score_lines
from opencse.text import sample

QUICK = ["training.max_steps=4", "training.batch_size=8", "training.evaluate_every=2", "training.seed=7"]


def card_of(folder: Path) -> ModelCard:
    """The card, after what holds for all of them."""
    card: ModelCard = ModelCard.load(folder / "README.md")
    told: dict[str, Any] = card.data.to_dict()  # type: ignore[no-untyped-call]
    assert told["library_name"] == "sentence-transformers"
    assert told["pipeline_tag"] == "sentence-similarity"
    assert "opencse" in told["tags"]
    assert "base_model" not in told  # a folder of this machine is none
    assert not re.search(r"\{[a-z_]+\}", re.sub(r"```.*?```", "", card.text, flags=re.DOTALL))
    encoder = SentenceEncoder.load(folder, device="cpu")
    for line in (f"{encoder.dimension} dimensions", f"pooling {encoder.pooling}", "## Limits", "opencse calibrate"):
        assert line in card.text
    for block in re.findall(r"```python\n(.*?)```", card.text, flags=re.DOTALL):
        names: dict[str, object] = {}
        if "sentence_transformers" in block:
            pytest.importorskip("sentence_transformers")
        exec(block.replace(THIS_FOLDER, str(folder)), names)
        assert names["vectors"].shape == (2, encoder.dimension)  # type: ignore[attr-defined]
    return card


def test_of_a_plain_save(encoder: SentenceEncoder, tmp_path: Path) -> None:
    encoder.save(tmp_path / "out")
    card = card_of(tmp_path / "out")
    assert "Nothing is recorded here of how it was made" in card.text
    assert "opencse export onnx" in card.text


def test_of_a_trained_encoder(tiny_folder: Path, tmp_path: Path) -> None:
    result = opencse.train(sample.TRAIN, tmp_path / "out", model=tiny_folder, settings=QUICK, dev="sample")
    card = card_of(tmp_path / "out")
    assert "| recipe | simcse" in card.text
    assert result.plan.corpus.fingerprint[:16] in card.text
    assert f"| start | {result.scores[0]:.2f} |" in card.text
    assert f"| last, step 4 | {result.scores[4]:.2f} |" in card.text
    assert "From one run, seed 7." in card.text
    assert f"| kept | {result.kept}: " in card.text
    assert "| kept | last: " in card_of(tmp_path / "out" / "last").text


def test_without_dev_it_says_that_nothing_was_evaluated(tiny_folder: Path, tmp_path: Path) -> None:
    opencse.train(sample.TRAIN, tmp_path / "out", model=tiny_folder, settings=QUICK, dev=None)
    assert "None: nothing was evaluated" in card_of(tmp_path / "out").text


def test_only_names_on_the_hub_are_base_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "base_model: someone/model" in front_matter("onnx", ["onnx"], "someone/model")
    for no_id in (None, "opencse-mini", "/models/mine", "a/b/c", "../model"):
        assert "base_model" not in front_matter("onnx", ["onnx"], no_id)
    monkeypatch.chdir(tmp_path)
    Path("here/model").mkdir(parents=True)
    assert "base_model" not in front_matter("onnx", ["onnx"], "here/model")


def test_scores_of_a_start_with_two_poolings() -> None:
    told = score_lines({0: 50.0, 10: 61.5, 20: 60.0}, "sample | dev", "Spearman x 100", 3, own_pooling=55.0)
    assert told.splitlines()[2:] == [
        "| start | 50.00 |",
        "| start, as given | 55.00 |",
        "| best, step 10 | 61.50 |",
        "| last, step 20 | 60.00 |",
        "",
        "From one run, seed 3. The best step was selected by these same scores, so they are optimistic.",
    ]
    assert "sample &#124; dev" in told
