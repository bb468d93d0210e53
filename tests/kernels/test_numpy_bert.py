"""BERT's forward in numpy gives transformers' hidden states."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel

from opencse.kernels.numpy_bert import NumpyBert, erf, gelu, layer_norm


def test_erf_and_gelu_are_those_of_the_library() -> None:
    x = np.linspace(-6, 6, 4_001)
    expected = np.array([math.erf(one) for one in x])
    assert np.abs(erf(x) - expected).max() < 2e-7
    assert np.abs(erf(x.astype(np.float32)) - expected).max() < 6e-7
    torch.testing.assert_close(
        torch.from_numpy(gelu(x)), torch.nn.functional.gelu(torch.from_numpy(x)), rtol=0, atol=6e-7
    )


def test_layer_norm() -> None:
    x, weight, bias = torch.randn(5, 8), torch.randn(8), torch.randn(8)
    expected = torch.nn.functional.layer_norm(x, (8,), weight, bias, 1e-5)
    torch.testing.assert_close(
        torch.from_numpy(layer_norm(x.numpy(), weight.numpy(), bias.numpy(), 1e-5)), expected, rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_states_of_all_layers(dtype: torch.dtype) -> None:
    config = BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=20, layer_norm_eps=1e-3, initializer_range=0.4,
    )  # fmt: skip
    torch.manual_seed(0)
    network = BertModel(config)
    for part in network.modules():
        if isinstance(part, torch.nn.Linear | torch.nn.LayerNorm):
            torch.nn.init.normal_(part.bias, std=0.5)
    state = {name: tensor.to(dtype) for name, tensor in network.state_dict().items()}
    network.load_state_dict(state)
    network.train(mode=False)
    numpy_network = NumpyBert({name: tensor.numpy() for name, tensor in state.items()}, 3, 4, 1e-3)
    rows = [np.array(ids, dtype=np.int32) for ids in ([4, 9, 2], [7], [1, 49, 3, 3, 8, 6])]
    made = numpy_network.states(rows, [0, 2, 3])
    borders = np.cumsum([len(row) for row in rows])[:-1]
    with torch.no_grad():
        for number, row in enumerate(rows):
            states = network(torch.from_numpy(row).long()[None], output_hidden_states=True).hidden_states
            for layer, state_of_all in zip((0, 2, 3), made, strict=True):
                mine = np.split(state_of_all, borders)[number]
                np.testing.assert_allclose(mine, states[layer][0].numpy(), rtol=0, atol=1e-5)
    assert numpy_network.hidden == 32
    assert numpy_network.id_count == 50
    assert numpy_network.nbytes == sum(tensor.nbytes for tensor in state.values())
