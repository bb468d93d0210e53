"""Weighted sums of word vectors are the vectors of a BERT without layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import filled
from opencse.encoder.encoder import SentenceEncoder
from opencse.kernels.word_means import WordMeans
from opencse.text import sample

TEXTS = [*filled(sample.TRAIN)[:200], "", "a", "word " * 300]


def plain(encoder: SentenceEncoder) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    with torch.enable_grad():  # what may need a gradient takes the plain forward
        ids = encoder.tokenize(TEXTS)
        return np.stack([encoder.embed(encoder.tokenizer.pad([row]))[0].detach().numpy() for row in ids])


def test_the_built_in_encoder_is_the_same() -> None:
    encoder = SentenceEncoder.load(device="cpu")
    np.testing.assert_allclose(encoder.encode(TEXTS), plain(encoder), rtol=0, atol=2e-6)
    assert WordMeans.fits(encoder.backbone)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_any_weights_and_every_change_of_them(pooling: str, tiny_folder: Path) -> None:
    encoder = SentenceEncoder.load(tiny_folder, layers=0, pooling=pooling, device="cpu")
    for _ in range(3):
        with torch.no_grad():
            for weights in encoder.parameters():
                weights.add_(0.3 * torch.randn_like(weights))
        vectors = encoder.encode(TEXTS)
        assert encoder.fast._prepared is not None
        assert isinstance(encoder.fast._prepared[1], WordMeans) == (pooling == "mean")
        np.testing.assert_allclose(vectors, plain(encoder), rtol=0, atol=1e-5)
