"""Tables of word vectors made of an encoder."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
from sentence_transformers import SentenceTransformer
from transformers import PreTrainedTokenizerFast

import opencse
from helpers import Run, accepted, write_lines
from opencse.arrays import Vectors
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.export import distil
from opencse.export.distil import DistilSettings, _fitted
from opencse.modules.similarity import unit_rows
from opencse.progress import Silent
from opencse.text.tokenizer import Tokenizer


def scattered(encoder: SentenceEncoder) -> SentenceEncoder:
    """With weights so large that the vectors of different texts differ much."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in encoder.backbone.parameters():
            if weight.ndim == 2:
                weight.normal_(0.0, 0.3, generator=generator)
    return encoder


def test_without_weights_or_reduction_a_word_has_the_encoders_vector(encoder: SentenceEncoder, tmp_path: Path) -> None:
    """All dimensions, no weights: cosines of centred single words are the encoder's own."""
    scattered(encoder)
    made = opencse.export_static(encoder, tmp_path, settings=DistilSettings(dimension=None, sif=float("inf")))
    everything = encoder.tokenizer.hf.get_vocab()
    words = [w for w in everything if w.isalpha() and len(w) > 3][:40]
    special = set(encoder.tokenizer.hf.all_special_tokens)
    ids = [[2, number, 3] for word, number in everything.items() if word not in special]
    first, *_, last = encoder.tokenizer.encode(["a"], None)[0]
    rows = [np.array([first, row[1], last], dtype=np.int32) for row in ids]
    with torch.inference_mode():
        mean = encoder.embed(encoder.tokenizer.pad(rows)).mean(dim=0).numpy()
    expected = unit_rows(encoder.encode(words) - mean)
    found = made.encoder.encode(words)
    assert np.abs(found @ found.T - expected @ expected.T).max() < 1e-4
    assert np.abs(found @ found.T).min() < 0.3, "the words differ"
    assert not made.encoder.encode(["☃", "[MASK]"]).any(), "special tokens have no direction"
    theirs = SentenceTransformer(str(tmp_path), device="cpu").encode(words)
    assert np.abs(theirs - found).max() < 1e-6
    assert "Word vectors distilled" in (tmp_path / "README.md").read_text()


def test_a_vocabulary_with_holes(encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ids after a hole are tokens of the encoder's own, not new words to be cut up."""
    stated = json.loads(encoder.tokenizer.hf.backend_tokenizer.to_str())
    vocabulary = stated["model"]["vocab"]
    for word in [word for word in vocabulary if word.isalpha() and len(word) > 3][:30]:
        del vocabulary[word]
    last = vocabulary.pop(max(vocabulary, key=vocabulary.__getitem__))
    vocabulary["##qxq"] = last  # which its name as a text would not give
    assert last > len(vocabulary)
    backend = tokenizers.Tokenizer.from_str(json.dumps(stated))
    named = {f"{name}_token": f"[{name.upper()}]" for name in ("cls", "sep", "pad", "unk", "mask")}
    hf = PreTrainedTokenizerFast(tokenizer_object=backend, **named)  # type: ignore[no-untyped-call]
    encoder.tokenizer = Tokenizer(hf)
    through, found = distil._encode_tokens, []

    def seen(*given: Any) -> Vectors:
        found.append(through(*given))
        return found[0]

    monkeypatch.setattr(distil, "_encode_tokens", seen)
    distil.distil(scattered(encoder), DistilSettings(dimension=8), [], Silent())
    first, *_, end = encoder.tokenizer.encode(["a"], None)[0]
    encoder.normalize = False
    with torch.inference_mode():
        expected = encoder.embed(encoder.tokenizer.pad([np.array([first, last, end], dtype=np.int32)])).numpy()
    assert np.abs(found[0][last] - expected).max() < 1e-5


def test_the_fit_solves_its_least_squares_problem() -> None:
    generator = np.random.default_rng(3)
    size, texts, dimension = 12, 40, 3
    ids = [generator.integers(0, size - 1, size=generator.integers(1, 7)).astype(np.int32) for _ in range(texts)]
    shares = np.zeros((texts, size))
    for row, text in zip(shares, ids, strict=True):
        np.add.at(row, text, 1 / len(text))
    start = generator.normal(size=(size, dimension)).astype(np.float32)
    targets = unit_rows(generator.normal(size=(texts, dimension)))
    settings = DistilSettings(ridge=0.3, iterations=60)
    found, before, after = _fitted(start, ids, targets, np.ones(size, dtype=np.bool_), settings, Silent())
    made = shares @ start
    scaled = start * (made * targets).sum() / (made * made).sum()
    expected = scaled + np.linalg.solve(shares.T @ shares + 0.3 * np.eye(size), shares.T @ (targets - shares @ scaled))
    assert np.abs(found - expected).max() < 1e-4
    assert np.abs(found - scaled).max() > 0.01
    assert after > before


def test_words_of_the_text_and_the_fit(
    opencse: Run, encoder: SentenceEncoder, sentences: list[str], tmp_path: Path
) -> None:
    scattered(encoder).save(tmp_path / "start")
    text = tmp_path / "text.txt"
    write_lines(text, sentences[:300])
    options = ("--corpus", text, "--dimension", "16", "--set", "words=40", "--set", "fewest=2", "--set", "ridge=0.1")
    out, err = accepted(opencse("export", "static", tmp_path / "start", "--out", tmp_path / "table", *options))
    assert out.strip() == str(tmp_path / "table")
    made = SentenceEncoder.load(tmp_path / "table", device="cpu")
    own = encoder.tokenizer.vocabulary_size
    assert own < made.tokenizer.vocabulary_size <= own + 40
    names = {number: name for name, number in made.tokenizer.hf.get_vocab().items()}
    word = names[own]
    assert len(made.tokenizer.encode([word], None)[0]) == 1 < len(encoder.tokenizer.encode([word], None)[0]) - 2
    found = re.search(r"fitted .* ([0-9.]+) before, ([0-9.]+) after", err)
    assert found is not None
    assert float(found[1]) < float(found[2]) < 1


def test_what_is_refused(encoder: SentenceEncoder, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"1 to the 32 of .*, not 64"):
        opencse.export_static(encoder, tmp_path / "x", settings=DistilSettings(dimension=64))
    with pytest.raises(UserError, match="words are counted in a text"):
        opencse.export_static(encoder, tmp_path / "x", settings=DistilSettings(dimension=8, words=3))
    assert not (tmp_path / "x").exists()
