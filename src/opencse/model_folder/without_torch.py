"""Reads encoders without torch and transformers, which take seconds to import: word vectors, and a BERT for few texts.

Word vectors are tables, and BERTs without layers such as the built-in encoder, with mean pooling. Where a folder needs
more, or holds anything unusual, nothing is returned: `opencse.model_folder.reading` opens it, or says what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from opencse.errors import UserError
from opencse.kernels.numpy_models import MOST_FACTORS, EmbeddingNorm, NumpyBert, WordMeans
from opencse.model_folder.description import (
    Modules,
    list_modules,
    pools_prompt,
    read_hybrid_weight,
    read_pooling,
    read_prompts,
    read_sentence_config,
    read_similarity,
    require_sentence_names,
    require_sentence_vectors,
    require_token_weights,
)
from opencse.model_folder.layout import SENTENCE_CONFIG, TEMPLATE, TOKEN_WEIGHTS_TENSOR, map_tensors, read_config
from opencse.model_folder.locate import locate
from opencse.model_folder.table import read_backend, table_rows
from opencse.modules.pooling import Pooling
from opencse.modules.prompts import Prompts
from opencse.modules.similarity import HybridWeight, Similarity
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


@dataclass(frozen=True, eq=False)
class TorchlessParts:
    """Lists the parts that every encoder without torch has, whatever computes its vectors.

    Attributes:
        tokenizer: makes the ids.
        max_length: longest text in ids, special tokens included; longer ones are truncated.
        normalize: whether vectors are L2-normalised.
        prompts: what is put before texts, by what they are for.
        similarity_fn_name: the function that vectors are compared by.
        hybrid_weight: of the vectors in a hybrid search, where one was fitted for them.
    """

    tokenizer: RustTokenizer
    max_length: int
    normalize: bool
    prompts: Prompts
    similarity_fn_name: Similarity
    hybrid_weight: HybridWeight | None = None

    @classmethod
    def read(cls, folder: Path, tokenizer: RustTokenizer, max_length: int, *, normalize: bool) -> Self:
        """The parts of a model, of which ``folder`` names the prompts, the similarity and the weight.

        Raises:
            UserError: for a value that is not supported, naming file and key.
        """
        return cls(
            tokenizer, max_length, normalize, read_prompts(folder), read_similarity(folder), read_hybrid_weight(folder)
        )


def needs_complete_reader(folder: Path, modules: Modules | None) -> bool:
    """Whether a folder has modules or settings that only `opencse.model_folder.reading` opens.

    Args:
        folder: of the model.
        modules: in it; None for a plain transformers folder.

    Raises:
        UserError: for settings that no reader opens.
    """
    require_sentence_vectors(folder)
    transformer = folder
    if modules is not None:
        transformer = modules.transformer
        if modules.layers:
            return True
        if modules.normalize is not None:
            require_sentence_names(modules.normalize)
    adapted = any((one / "adapter_config.json").is_file() for one in (folder, transformer))
    return adapted or TEMPLATE in read_config(folder / SENTENCE_CONFIG)


def is_plain_bert(config: dict[str, Any]) -> bool:
    """Whether config.json describes a BERT with absolute positions, and nothing that transformers adds to one."""
    usual = config.get("model_type") == "bert" and not any(config.get(key) for key in _UNUSUAL)
    return usual and config.get("position_embedding_type", "absolute") == "absolute"


def bert_tensors(transformer: Path) -> dict[str, NDArray[Any]]:
    """The tensors of a BERT by their names in transformers, without the prefix ``bert.``.

    Raises:
        UserError: if they cannot be read, or one is there with and without the prefix.
    """
    stored = map_tensors(transformer / "model.safetensors")
    tensors = {name.removeprefix("bert."): array for name, array in stored.items()}
    if len(tensors) < len(stored):
        raise UserError(f"{transformer}: model.safetensors holds a tensor both with and without the prefix 'bert.'")
    return tensors


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


def longest_input(folder: Path, tokenizer: RustTokenizer, words: Sized, positions: Sized) -> int | None:
    """The longest text in ids, as the complete reader reads it; None where it would refuse the folder.

    Args:
        folder: of the tokenizer.
        tokenizer: in it.
        words: the word vectors of the network.
        positions: its position vectors.
    """
    sentence = read_sentence_config(folder)
    if sentence.lower_case or 1 + max(tokenizer.backend.get_vocab().values(), default=0) > len(words):
        return None
    limit = sentence.max_length or read_config(folder / "tokenizer_config.json").get("model_max_length")
    if isinstance(limit, bool) or not isinstance(limit, int | float):
        return None
    length = int(min(len(positions), limit))
    return length if length > tokenizer.special_count else None


@dataclass(frozen=True, eq=False)
class StaticParts:
    """Lists the parts of an encoder of word vectors.

    Attributes:
        words: the vectors.
        common: the tokenizer and all else.
    """

    words: WordMeans
    common: TorchlessParts


def read_static(model: str | Path, *, pooling: str | None = None) -> StaticParts | None:
    """The parts of the encoder in a folder, if it is word vectors alone that are averaged; None for all others.

    Example:
        >>> parts = read_static("opencse-mini")
        >>> parts.words.dimension, parts.common.max_length
        (448, 128)

    Args:
        model: the built-in encoder's name, a folder or a Hub id.
        pooling: replaces the folder's own.

    Raises:
        UserError: if there is no such model.
    """
    folder = locate(model)
    if pooling not in (None, Pooling.MEAN.value):
        return None
    try:
        return _read_words(folder, averaged=pooling is not None)
    except UserError:  # the complete reader says what is wrong, after it has tried all that it can
        return None


def _read_words(folder: Path, *, averaged: bool) -> StaticParts | None:
    modules = list_modules(folder)
    if modules is None or modules.weighted_layers is not None or modules.token_weights is not None:
        return None
    if needs_complete_reader(folder, modules):
        return None
    normalize = modules.normalize is not None
    if modules.table:
        read = table_rows(folder, modules.transformer, map_tensors(modules.transformer / "model.safetensors"))
        bare, weights = read.tokenizer, None
        if read.leaves_out_unknown:
            weights = np.ones(len(read.rows), dtype=np.float32)
            weights[bare.unknown_id] = 0
        unit = normalize if read.normalize is None else read.normalize
        words = WordMeans(read.rows, token_weights=weights)
        return StaticParts(words, TorchlessParts.read(folder, bare.rust, read.max_length, normalize=unit))
    config = read_config(modules.transformer / "config.json")
    if not pools_prompt(modules) or not (averaged or read_pooling(modules, config) is Pooling.MEAN):
        return None
    norm_words = _words(modules, config)
    if norm_words is None or norm_words.norm is None:
        return None
    bert = read_plain_tokenizer(modules.transformer)
    length = (
        None if bert is None else longest_input(modules.transformer, bert, norm_words.words, norm_words.norm.positions)
    )
    if bert is None or length is None:
        return None
    return StaticParts(norm_words, TorchlessParts.read(folder, bert, length, normalize=normalize))


def _words(modules: Modules, config: dict[str, Any]) -> WordMeans | None:
    """The word vectors of a BERT without layers; None for any other network."""
    if not is_plain_bert(config) or config.get("num_hidden_layers") != 0:
        return None
    tensors = bert_tensors(modules.transformer)
    words, positions, types, weight, bias = (
        tensors.get(f"embeddings.{name}")
        for name in (
            "word_embeddings.weight",
            "position_embeddings.weight",
            "token_type_embeddings.weight",
            "LayerNorm.weight",
            "LayerNorm.bias",
        )
    )
    if words is None or positions is None or types is None or weight is None or bias is None:
        return None
    size = config.get("hidden_size")
    shapes = [
        (words, (config.get("vocab_size"), size)),
        (positions, (config.get("max_position_embeddings"), size)),
        (types, (config.get("type_vocab_size", 2), size)),
        (weight, (size,)),
        (bias, (size,)),
    ]
    if any(array.shape != stated for array, stated in shapes) or len(words) * len(positions) > MOST_FACTORS:
        return None
    eps = config.get("layer_norm_eps", 1e-12)
    norm = EmbeddingNorm(positions, types[0], weight, bias, float(eps)) if isinstance(eps, int | float) else None
    return None if norm is None else WordMeans(words, norm)


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
        return _read_network(folder, pooling)
    except UserError:  # the complete reader says what is wrong, after it has tried all that it can
        return None


def _read_network(folder: Path, requested: str | None) -> BertParts | None:
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
