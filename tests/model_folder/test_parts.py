"""Adapters of a folder; their training is tested in tests/training/test_lora.py."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.description import (
    list_modules,
    read_layer,
    read_token_weights,
)
from opencse.modules.dense import Dense
from opencse.modules.token_modules import TokenWeights

pytest.importorskip("peft")


def test_dense_layers_and_token_weights_are_read_back(encoder: SentenceEncoder, tmp_path: Path) -> None:
    count = encoder.tokenizer.vocabulary_size
    dense = Dense(32, 5, "relu", bias=False, use_residual=True)
    encoder.dense.append(dense)
    encoder.token_weights = TokenWeights(torch.rand(count))
    encoder.save(tmp_path)
    modules = list_modules(tmp_path)
    weighing = modules.modules["WordWeights"]
    assert read_token_weights(weighing, count).tolist() == encoder.token_weights.weights.tolist()
    with pytest.raises(UserError, match="each id needs one"):
        read_token_weights(weighing, count + 1)
    layer = read_layer(modules.layers[0])
    assert isinstance(layer, Dense)
    assert (layer.activation_name, layer.use_residual) == ("relu", True)
    assert layer.state_dict().keys() == dense.state_dict().keys()
    assert torch.equal(layer.linear.weight, dense.linear.weight)
    assert len(modules.saved_layers(32)) == 1
    with pytest.raises(UserError, match="takes 32 features but is given 16"):
        modules.saved_layers(16)
