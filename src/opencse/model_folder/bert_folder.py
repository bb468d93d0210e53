"""Reads a BERT with its pooling without torch and transformers, to encode a few texts at once.

Where a folder needs more than that, or holds anything unusual, nothing is returned: `opencse.model_folder.reading`
opens it, or says what is wrong with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError
from opencse.kernels.numpy_bert import NumpyBert
from opencse.model_folder.layout import TOKEN_WEIGHTS_TENSOR, read_config
from opencse.model_folder.listing import list_modules
from opencse.model_folder.mapped_tensors import map_tensors
from opencse.model_folder.module_folders import pools_prompt, read_pooling, require_token_weights
from opencse.model_folder.plain_tokenizer import longest_input, read_plain_tokenizer
from opencse.model_folder.torchless_parts import TorchlessParts, bert_tensors, is_plain_bert, needs_complete_reader
from opencse.modules.pooling import Pooling

_EMBEDDINGS = {
    "word_embeddings.weight": "vocab_size",
    "position_embeddings.weight": "max_position_embeddings",
    "token_type_embeddings.weight": "type_vocab_size",
}
"""The tables of the embedding layer, and the entry of the configuration that is their number of rows."""
_POOLINGS = (Pooling.MEAN, Pooling.CLS, Pooling.FIRST_LAST_0, Pooling.FIRST_LAST_1, Pooling.TOP2)


@dataclass(frozen=True, eq=False)
class BertParts:
    """Lists the parts of an encoder that is a BERT with pooling.

    Attributes:
        folder: of the model.
        network: the weights.
        pooling: from token vectors to a sentence vector; a mean, or the first token.
        common: the tokenizer and all else.
        token_weights: (V,) how much each token counts in a mean, from 0 on; None if all count the same.
    """

    folder: Path
    network: NumpyBert
    pooling: Pooling
    common: TorchlessParts
    token_weights: NDArray[np.float32] | None = None


def read_bert(folder: Path, *, pooling: str | None = None) -> BertParts | None:
    """The parts of the encoder in a folder, if it is a BERT that is pooled; None for all others.

    Args:
        folder: of the model.
        pooling: replaces the folder's own.
    """
    try:
        return _read(folder, pooling)
    except UserError:  # the complete reader says what is wrong, after it has tried all that it can
        return None


def _read(folder: Path, requested: str | None) -> BertParts | None:
    modules = list_modules(folder)
    transformer = folder if modules is None else modules.transformer
    if (modules is not None and modules.table) or needs_complete_reader(folder, modules):
        return None
    config = read_config(transformer / "config.json")
    if requested is not None:
        pooling = next((one for one in _POOLINGS if one.value == requested), None)
    else:
        pooling = Pooling.MEAN if modules is None else read_pooling(modules, config)
    if pooling not in _POOLINGS or (modules is not None and not pools_prompt(modules)):
        return None
    network = _network(transformer, config)
    if network is None or not 0 <= pooling.layers(network.depth)[0] <= network.depth:
        return None
    tokenizer = read_plain_tokenizer(transformer)
    if tokenizer is None:
        return None
    words, positions = (network.weights[f"embeddings.{kind}_embeddings.weight"] for kind in ("word", "position"))
    length = longest_input(transformer, tokenizer, words, positions)
    if length is None:
        return None
    token_weights = None
    if modules is not None and modules.token_weights is not None and (pooling.is_mean or requested is None):
        if not pooling.is_mean:
            return None
        token_weights = _token_weights(modules.token_weights, tokenizer.vocabulary_size)
    normalize = modules is not None and modules.normalize is not None
    common = TorchlessParts.read(folder, tokenizer, length, normalize=normalize)
    return BertParts(folder, network, pooling, common, token_weights)


def _token_weights(folder: Path, vocabulary: int) -> NDArray[np.float32]:
    """The weights of a WordWeights module, (V,)."""
    weights = map_tensors(folder / "model.safetensors").get(TOKEN_WEIGHTS_TENSOR, np.zeros(0)).ravel()
    require_token_weights(folder, weights, vocabulary)
    return weights.astype(np.float32)


def _network(folder: Path, config: dict[str, Any]) -> NumpyBert | None:
    """The weights of a BERT with layers, float32 or float16; None for any other network."""
    if not is_plain_bert(config) or config.get("hidden_act") != "gelu":
        return None
    sizes = [
        config.get(key) for key in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    ]
    eps = config.get("layer_norm_eps", 1e-12)
    if not all(isinstance(size, int) and size > 0 for size in sizes) or not isinstance(eps, int | float):
        return None
    hidden, inner, depth, heads = (int(size or 0) for size in sizes)
    tensors = bert_tensors(folder)
    if depth > len(tensors):  # before a list of names is made for a number of layers that cannot be
        return None
    shapes = {
        f"embeddings.{name}": (config.get(rows, 2 if rows == "type_vocab_size" else None), hidden)
        for name, rows in _EMBEDDINGS.items()
    } | {name: shape for layer in range(depth) for name, shape in _layer_shapes(layer, hidden, inner).items()}
    shapes |= _pair("embeddings.LayerNorm", (hidden,))
    weights: dict[str, NDArray[Any]] = {name: tensors[name] for name in shapes if name in tensors}
    fits = all(name in weights and weights[name].shape == shape for name, shape in shapes.items())
    if not fits or hidden % heads or any(one.dtype not in (np.float32, np.float16) for one in weights.values()):
        return None
    return NumpyBert(weights, depth, heads, float(eps))


def _pair(name: str, shape: tuple[int, ...]) -> dict[str, tuple[Any, ...]]:
    """The shapes of a weight and its bias."""
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def _layer_shapes(layer: int, hidden: int, inner: int) -> dict[str, tuple[Any, ...]]:
    name = f"encoder.layer.{layer}"
    shapes: dict[str, tuple[Any, ...]] = {}
    for part in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
        shapes |= _pair(f"{name}.{part}", (hidden, hidden))
    for part in ("attention.output.LayerNorm", "output.LayerNorm"):
        shapes |= _pair(f"{name}.{part}", (hidden,))
    shapes |= _pair(f"{name}.intermediate.dense", (inner, hidden)) | _pair(f"{name}.output.dense", (hidden, inner))
    return shapes
