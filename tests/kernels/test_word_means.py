"""Weighted sums of word vectors are the vectors of a BERT without layers, and of a table."""

from __future__ import annotations

import hashlib
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import filled
from opencse.encoder.encoder import SentenceEncoder
from opencse.kernels import word_means
from opencse.kernels.word_means import EmbeddingNorm, WordMeans
from opencse.text import sample

TEXTS = [*filled(sample.TRAIN)[:200], "", "a", "word " * 300]


def plain(encoder: SentenceEncoder) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    with torch.enable_grad():  # what may need a gradient takes the plain forward
        ids = encoder.tokenize(TEXTS)
        return np.stack([encoder.embed(encoder.tokenizer.pad([row]))[0].detach().numpy() for row in ids])


def test_the_built_in_encoder_is_the_same() -> None:
    encoder = SentenceEncoder.load(device="cpu")
    assert encoder.static is not None
    np.testing.assert_allclose(encoder.encode(TEXTS), plain(encoder), rtol=0, atol=1e-6)
    np.testing.assert_allclose(encoder.encode_ids(encoder.tokenize(TEXTS)), plain(encoder), rtol=0, atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_any_weights_and_every_change_of_them(pooling: str, tiny_folder: Path) -> None:
    encoder = SentenceEncoder.load(tiny_folder, layers=0, pooling=pooling, device="cpu")
    assert (encoder.static is not None) == (pooling == "mean")
    for _ in range(3):
        with torch.no_grad():
            for weights in encoder.parameters():
                weights.add_(0.3 * torch.randn_like(weights))
        np.testing.assert_allclose(encoder.encode(TEXTS), plain(encoder), rtol=0, atol=1e-5)


def test_a_table_weighs_its_tokens() -> None:
    rows = np.random.default_rng(0).standard_normal((9, 4)).astype(np.float16)
    weights = np.linspace(0, 1, 9, dtype=np.float32)
    ids = [np.array([1, 2, 2], dtype=np.int32), np.array([8], dtype=np.int32), np.array([0], dtype=np.int32)]
    wide = rows.astype(np.float64)
    expected = [*(np.average(wide[row], axis=0, weights=weights[row]) for row in ids[:2]), np.zeros(4)]
    np.testing.assert_allclose(WordMeans(rows, token_weights=weights).of(ids), expected, atol=1e-6)
    even = [wide[row].mean(axis=0) for row in ids]
    np.testing.assert_allclose(WordMeans(rows).of(ids), even, atol=1e-6)


def test_a_copy_in_32_bits_has_the_same_hash() -> None:
    rows = np.arange(8, dtype=np.float16).reshape(4, 2)
    assert WordMeans(rows).hash() == WordMeans(rows.astype(np.float32)).hash()
    assert WordMeans(rows).hash() != WordMeans(rows + 1).hash()


def test_the_hash_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    words = WordMeans(np.ones((4, 2), dtype=np.float16))
    first = words.hash()
    monkeypatch.setattr(hashlib, "sha256", lambda: pytest.fail("all word vectors are read again"))
    assert words.hash() == first


@pytest.mark.parametrize("kind", ["table", "weighted", "norm"])
def test_long_and_many_texts_are_summed_in_blocks(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    rows, most = random.standard_normal((50, 8)).astype(np.float32), 300
    norm = EmbeddingNorm(random.standard_normal((most, 8)), np.ones(8), np.ones(8), np.zeros(8), 1e-12)
    weights = random.random(50).astype(np.float32)
    words = WordMeans(rows, norm if kind == "norm" else None, weights if kind == "weighted" else None)
    ids = [random.integers(0, 50, length).astype(np.int32) for length in (1, most, 16, 17, 7, most - 1, 48)]
    expected = words.of(ids)
    monkeypatch.setattr(word_means, "_MOST_POSITIONS", 16)
    monkeypatch.setattr(word_means, "_MOST_NUMBERS", 2 * 16 * 8)
    np.testing.assert_allclose(words.of(ids), expected, atol=1e-5)


def test_the_memory_of_a_text_of_millions_of_tokens_is_bounded() -> None:
    words = WordMeans(np.ones((4, 256), dtype=np.float16))
    ids = np.resize(np.arange(4, dtype=np.int32), 2**20)
    tracemalloc.start()
    vectors = words.of([ids])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**27, "a gigabyte at once"
    assert vectors.tolist() == [[1.0] * 256]
