"""Reads encoders without torch and transformers, which take seconds to import: word vectors, and a BERT for few texts.

Word vectors are tables, and BERTs without layers such as the built-in encoder, with mean pooling. Where a folder needs
more, or holds anything unusual, nothing is returned: `opencse.model_folder.reading` opens it, or says what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError
from opencse.kernels.numpy_models import EMBEDDINGS, NumpyBert, WordMeans
from opencse.model_folder.description import (
    Description,
    list_modules,
    read_token_weights,
)
from opencse.model_folder.layout import ADAPTER_CONFIG, TOKEN_WEIGHTS, read_arrays, read_config
from opencse.model_folder.locate import locate
from opencse.model_folder.table import read_backend, table_rows
from opencse.modules.parts import Common
from opencse.modules.pooling import Pooling
from opencse.text.rust_tokenizer import RustTokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend


_UNUSUAL = (
    "add_cross_attention",
    "auto_map",
    "is_decoder",
    "is_encoder_decoder",
    "quantization_config",
    "transformers_weights",
)


Model = TypeVar("Model", bound=WordMeans | NumpyBert)


@dataclass(frozen=True, eq=False)
class NumpyParts(Common, Generic[Model]):
    """Lists the parts of an encoder that computes in numpy; for the others see `opencse.modules.parts.Common`.

    Attributes:
        model: computes the vectors.
        tokenizer: makes the ids.
        token_weights: (V,) how much each token counts in the mean of a BERT, from 0 on; None if all count the same.
    """

    model: Model
    tokenizer: RustTokenizer
    token_weights: NDArray[np.float32] | None = None


def _is_unusual(about: Description) -> bool:
    """Whether a folder has modules or settings that only `opencse.model_folder.reading` opens."""
    adapted = any((one / ADAPTER_CONFIG).is_file() for one in (about.folder, about.transformer))
    return bool(about.layers) or adapted or about.template is not None


_AS_THEY_ARE = ("PreTrainedTokenizerFast", "TokenizersBackend")
"""Classes of transformers that use tokenizer.json as it is."""
_BERTS = ("BertTokenizer", "BertTokenizerFast")
_OTHER_IDS = (
    "auto_map",
    "split_special_tokens",
    "extra_special_tokens",
    "additional_special_tokens",
    "model_specific_special_tokens",
)
"""Settings of transformers' tokenizers that change the ids of a text."""
_SPECIAL = ("unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_FLAGS = ("content", "single_word", "lstrip", "rstrip", "normalized", "special")
"""What tells two added tokens of a tokenizer apart."""
_PARTS = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "attention.output.LayerNorm",
    "intermediate.dense",
    "output.dense",
    "output.LayerNorm",
)
"""The parts of a layer that have weights."""
_POOLINGS = (Pooling.MEAN, Pooling.CLS, Pooling.FIRST_LAST_0, Pooling.FIRST_LAST_1, Pooling.TOP2)


def read_plain_tokenizer(folder: Path) -> RustTokenizer | None:
    """The tokenizer of a folder, if transformers uses tokenizer.json as it is; None where that is not certain."""
    path = folder / "tokenizer_config.json"
    config = read_config(path)
    backend = read_backend(folder)
    if "added_tokens_decoder" not in config:
        config |= read_config(folder / "special_tokens_map.json")
    if any(config.get(key) for key in _OTHER_IDS) or (folder / "added_tokens.json").is_file():
        return None
    if config.keys() & {"add_bos_token", "add_eos_token"}:  # even if false, transformers replaces the post-processor
        return None
    if any(backend.encode("a").type_ids):  # the complete reader knows whether they reach the network
        return None
    described = json.loads(backend.to_str())
    added = described["added_tokens"]
    if not _special(config, "bos_token", "eos_token", *_SPECIAL) <= {token["content"] for token in added}:
        return None
    if not _stated_tokens(config) <= {(token["id"], *(token[flag] for flag in _FLAGS)) for token in added}:
        return None
    kind = config.get("tokenizer_class")
    if kind not in _AS_THEY_ARE and not (kind in _BERTS and _is_stock_bert(backend, described, config)):
        return None
    side = config.get("truncation_side", "right")
    return RustTokenizer(backend, truncation_side=side, copy=False) if side in ("left", "right") else None


def _special(config: Mapping[str, Any], *names: str) -> set[str]:
    """The special tokens that tokenizer_config.json names, each as text or as an object with a content."""
    tokens = [config.get(name) for name in names]
    return {str(token.get("content") if isinstance(token, dict) else token) for token in tokens if token is not None}


def _stated_tokens(config: Mapping[str, Any]) -> set[tuple[object, ...]]:
    """The number and the `_FLAGS` of each token that tokenizer_config.json adds."""
    stated = config.get("added_tokens_decoder") or {}
    if not isinstance(stated, dict) or not all(isinstance(token, dict) for token in stated.values()):
        raise UserError("added_tokens_decoder: an object of objects was expected")
    return {
        (
            int(number) if number.isdecimal() else number,
            *(str(token.get(flag)) if flag == "content" else bool(token.get(flag)) for flag in _FLAGS),
        )
        for number, token in stated.items()
    }


def _is_stock_bert(backend: Backend, described: dict[str, Any], config: dict[str, Any]) -> bool:
    """Whether a tokenizer is the one that transformers builds from a vocabulary and tokenizer_config.json."""
    normalizer = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": config.get("tokenize_chinese_chars", True),
        "strip_accents": config.get("strip_accents"),
        "lowercase": config.get("do_lower_case"),
    }
    model = {key: value for key, value in described["model"].items() if key != "vocab"}
    pieces = {
        "type": "WordPiece",
        "unk_token": next(iter(_special(config, "unk_token")), None),
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
    }
    added = {token["content"] for token in described["added_tokens"]}
    around = [next(iter(_special(config, name)), "") for name in ("cls_token", "sep_token")]
    first, last = ({"SpecialToken": {"id": token, "type_id": 0}} for token in around)
    post_processor = described["post_processor"] or {}
    numbers = {token: entry["ids"] for token, entry in post_processor.get("special_tokens", {}).items()}
    return (
        described["normalizer"] == normalizer
        and described["pre_tokenizer"] == {"type": "BertPreTokenizer"}
        and post_processor.get("type") == "TemplateProcessing"
        and post_processor["single"] == [first, {"Sequence": {"id": "A", "type_id": 0}}, last]
        and all(numbers.get(token) == [backend.token_to_id(token)] for token in around)
        and model == pieces
        and added == _special(config, *_SPECIAL)
    )


def longest_input(about: Description, tokenizer: RustTokenizer, words: Sized, positions: Sized) -> int | None:
    """The longest text in ids, as the complete reader reads it; None where it would refuse the folder.

    Args:
        about: the folder.
        tokenizer: in it.
        words: the word vectors of the network.
        positions: its position vectors.
    """
    sentence = about.sentence
    if sentence.lower_case or 1 + max(tokenizer.backend.get_vocab().values(), default=0) > len(words):
        return None
    limit = sentence.max_length or read_config(about.text / "tokenizer_config.json").get("model_max_length")
    if isinstance(limit, bool) or not isinstance(limit, int | float):
        return None
    length = int(min(len(positions), limit))
    return length if length > tokenizer.special_count else None


def read_static(model: str | Path, *, pooling: str | None = None) -> NumpyParts[WordMeans] | None:
    """The parts of the encoder in a folder, if it is word vectors alone that are averaged; None for all others.

    Example:
        >>> parts = read_static("opencse-mini")
        >>> parts.model.dimension, parts.max_length
        (448, 128)

    Args:
        model: the built-in encoder's name, a folder or a Hub id.
        pooling: replaces the folder's own.

    Raises:
        UserError: if there is no such model.
    """
    folder = locate(model)
    try:
        return static_parts(list_modules(folder), pooling)
    except UserError:  # the complete reader says what is wrong, after it has tried all that it can
        return None


def static_parts(about: Description, pooling: str | None) -> NumpyParts[WordMeans] | None:
    """`read_static` of a folder that is described already."""
    try:
        if pooling not in (None, Pooling.MEAN.value) or not about.modules or _is_unusual(about):
            return None
        if about.table:
            return _table(about)
        parts = None if about.has_layers else _bert(about, pooling)
    except UserError:  # the complete reader says what is wrong, after it has tried all that it can
        return None
    if parts is None or parts.pooling is not Pooling.MEAN or parts.token_weights is not None:
        return None
    means = WordMeans.of_bert([parts.model.weights[f"embeddings.{name}"] for name in EMBEDDINGS], parts.model.eps)
    if means is None:
        return None
    return NumpyParts(means, parts.tokenizer, max_length=parts.max_length, normalize=parts.normalize, **about.common)


def _table(about: Description) -> NumpyParts[WordMeans]:
    """The parts of a table of word vectors."""
    folder = about.folder
    read = table_rows(folder, about.transformer, read_arrays(about.transformer / "model.safetensors"))
    weights = None
    if read.leaves_out_unknown:
        weights = np.ones(len(read.rows), dtype=np.float32)
        weights[read.tokenizer.unknown_id] = 0
    return NumpyParts(
        WordMeans(read.rows, token_weights=weights),
        read.tokenizer.rust,
        max_length=read.max_length,
        normalize=about.normalize if read.normalize is None else read.normalize,
        **about.common,
    )


def read_bert(folder: Path, *, pooling: str | None = None) -> NumpyParts[NumpyBert] | None:
    """The parts of the encoder in a folder, if it is a BERT with layers that is pooled; None for all others.

    Args:
        folder: of the model.
        pooling: replaces the folder's own.
    """
    try:
        about = list_modules(folder)
        return None if not about.has_layers or _is_unusual(about) else _bert(about, pooling)
    except UserError:  # the complete reader says what is wrong, after it has tried all that it can
        return None


def _bert(about: Description, requested: str | None) -> NumpyParts[NumpyBert] | None:
    """The parts of a BERT with or without layers; None for any other network, tokenizer or pooling."""
    pooling = (about.pooling or Pooling.MEAN) if requested is None else requested
    network = _network(about)
    if pooling not in _POOLINGS or not about.pool_prompt or network is None:
        return None
    pooling = Pooling(pooling)
    tokenizer = read_plain_tokenizer(about.transformer)
    if tokenizer is None or not 0 <= pooling.layers(network.depth)[0] <= network.depth:
        return None
    words, positions = (network.weights[f"embeddings.{kind}_embeddings.weight"] for kind in ("word", "position"))
    length = longest_input(about, tokenizer, words, positions)
    weighing, token_weights = about.modules.get(TOKEN_WEIGHTS), None
    if weighing is not None and (pooling.is_mean or requested is None):
        if not pooling.is_mean:
            return None
        token_weights = read_token_weights(weighing, tokenizer.vocabulary_size)
    if length is None:
        return None
    return NumpyParts(
        network,
        tokenizer,
        max_length=length,
        normalize=about.normalize,
        pooling=pooling,
        token_weights=token_weights,
        **about.common,
    )


def _network(about: Description) -> NumpyBert | None:
    """The weights of a BERT with absolute positions, float32 or float16; None for any other network.

    Raises:
        UserError: if they cannot be read, or one is there with and without the prefix ``bert.``.
    """
    config = about.config
    depth, heads, hidden = (config.get(key, -1) for key in ("num_hidden_layers", "num_attention_heads", "hidden_size"))
    eps, positions = config.get("layer_norm_eps", 1e-12), config.get("position_embedding_type", "absolute")
    if config.get("model_type") != "bert" or positions != "absolute" or any(config.get(key) for key in _UNUSUAL):
        return None
    if not all(isinstance(size, int) and size >= 0 for size in (depth, heads, hidden)) or not heads or hidden % heads:
        return None
    stored = read_arrays(about.transformer / "model.safetensors")
    tensors = {name.removeprefix("bert."): array for name, array in stored.items()}
    # no list of names is made for a number of layers that cannot be
    if len(tensors) < len(stored) or depth > len(tensors) or (depth and config.get("hidden_act") != "gelu"):
        return None
    layers = [
        f"encoder.layer.{n}.{part}.{kind}" for n in range(depth) for part in _PARTS for kind in ("weight", "bias")
    ]
    names = [f"embeddings.{name}" for name in EMBEDDINGS] + layers
    weights: dict[str, NDArray[Any]] = {name: tensors[name] for name in names if name in tensors}
    if len(weights) < len(names) or any(one.dtype not in (np.float32, np.float16) for one in weights.values()):
        return None
    stated = [config.get(key) for key in ("vocab_size", "max_position_embeddings")]
    words, places = (weights[name].shape for name in names[:2])
    fits = words + places == (stated[0], hidden, stated[1], hidden)
    return NumpyBert(weights, depth, heads, float(eps)) if fits else None
