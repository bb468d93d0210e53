"""Which backbones are word vectors alone, and that their numpy arrays are the weights themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.word_vectors import words_of
from opencse.kernels import word_means
from opencse.model_folder.table import new_table
from opencse.modules.token_weights import TokenWeights


def test_a_network_with_layers_has_none(encoder: SentenceEncoder) -> None:
    assert encoder.depth > 0
    assert words_of(encoder.backbone) is None


def test_a_bert_without_layers_has_those_of_its_embedding_layer(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backbone: Any = SentenceEncoder.load(tiny_folder, layers=0, device="cpu").backbone
    words = words_of(backbone)
    assert words is not None
    assert words.norm is not None
    with torch.no_grad():  # the arrays are views: they follow the weights
        backbone.embeddings.word_embeddings.weight.add_(1)
    np.testing.assert_array_equal(words.words, backbone.embeddings.word_embeddings.weight.detach().numpy())
    assert words.norm.eps == backbone.config.layer_norm_eps
    assert words_of(backbone, TokenWeights(torch.ones(len(words.words)))) is None
    monkeypatch.setattr("opencse.encoder.word_vectors.MOST_FACTORS", 1)
    assert word_means.MOST_FACTORS > 1
    assert words_of(backbone) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_table_has_its_rows_and_weights(dtype: torch.dtype) -> None:
    table: Any = new_table(torch.arange(6.0).reshape(3, 2))
    table.to(dtype=dtype)
    words = words_of(table, TokenWeights(torch.tensor([1.0, 0.0, 3.0])))
    assert words is not None
    assert words.norm is None
    assert words.words.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert words.of([np.array([0, 1, 2])]).tolist() == [[3.0, 4.0]]
