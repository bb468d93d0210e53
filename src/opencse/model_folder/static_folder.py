"""Reads models that are word vectors alone without torch and transformers, which take seconds to import.

These are tables of word vectors, and BERTs without layers such as the built-in encoder, with mean pooling. Where a
folder needs more than that, or holds anything unusual, nothing is returned: `opencse.model_folder.reading` opens it, or
says what is wrong with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opencse.errors import UserError
from opencse.kernels.word_means import MOST_FACTORS, EmbeddingNorm, WordMeans
from opencse.model_folder.hybrid_weight import read_hybrid_weight
from opencse.model_folder.layout import SENTENCE_CONFIG, TEMPLATE, read_config
from opencse.model_folder.listing import Modules, list_modules
from opencse.model_folder.locate import locate
from opencse.model_folder.mapped_tensors import map_tensors
from opencse.model_folder.module_folders import pools_prompt, read_pooling, require_sentence_names
from opencse.model_folder.sentence_config import (
    read_prompts,
    read_sentence_config,
    read_similarity,
    require_all_dimensions,
)
from opencse.model_folder.table_rows import read_backend, table_rows
from opencse.modules.hybrid_weight import HybridWeight
from opencse.modules.pooling import Pooling
from opencse.modules.prompts import Prompts
from opencse.modules.similarity import Similarity
from opencse.text.rust_tokenizer import RustTokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

_AS_THEY_ARE = ("PreTrainedTokenizerFast", "TokenizersBackend")
"""Classes of transformers that use tokenizer.json as it is."""
_BERTS = ("BertTokenizer", "BertTokenizerFast")
_UNUSUAL = (
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


@dataclass(frozen=True, eq=False)
class StaticParts:
    """Lists the parts of an encoder of word vectors.

    Attributes:
        words: the vectors.
        tokenizer: makes the ids.
        max_length: longest text in ids, special tokens included; longer ones are truncated.
        normalize: whether vectors are L2-normalised.
        prompts: what is put before texts, by what they are for.
        similarity_fn_name: the function that vectors are compared by.
        hybrid_weight: of the vectors in a hybrid search, where one was fitted for them.
    """

    words: WordMeans
    tokenizer: RustTokenizer
    max_length: int
    normalize: bool
    prompts: Prompts
    similarity_fn_name: Similarity
    hybrid_weight: HybridWeight | None = None


def read_static(model: str | Path, *, pooling: str | None = None) -> StaticParts | None:
    """The parts of the encoder in a folder, if it is word vectors alone that are averaged; None for all others.

    Example:
        >>> parts = read_static("opencse-mini")
        >>> parts.words.dimension, parts.max_length
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
        return _read(folder, averaged=pooling is not None)
    except UserError:  # the complete reader says what is wrong, after it has tried all that it can
        return None


def _read(folder: Path, *, averaged: bool) -> StaticParts | None:
    modules = list_modules(folder)
    if modules is None or modules.dense or modules.token_weights is not None or modules.weighted_layers is not None:
        return None
    if any((one / "adapter_config.json").is_file() for one in (folder, modules.transformer)):
        return None
    if TEMPLATE in read_config(folder / SENTENCE_CONFIG):
        return None
    require_all_dimensions(folder)
    prompts, similarity, hybrid_weight = read_prompts(folder), read_similarity(folder), read_hybrid_weight(folder)
    normalize = modules.normalize is not None
    if modules.table:
        read = table_rows(folder, modules.transformer, map_tensors(modules.transformer / "model.safetensors"))
        bare, weights = read.tokenizer, None
        if read.leaves_out_unknown:
            weights = np.ones(len(read.rows), dtype=np.float32)
            weights[bare.unknown_id] = 0
        tokenizer = RustTokenizer(
            bare.backend,
            truncation_side=bare.truncation_side,
            characters_per_id=bare.characters_per_id,
            unknown=bare.unknown,
        )
        unit = normalize if read.normalize is None else read.normalize
        words = WordMeans(read.rows, token_weights=weights)
        return StaticParts(words, tokenizer, read.max_length, unit, prompts, similarity, hybrid_weight)
    if normalize and modules.normalize is not None:
        require_sentence_names(modules.normalize)
    config = read_config(modules.transformer / "config.json")
    if not pools_prompt(modules) or not (averaged or read_pooling(modules, config) is Pooling.MEAN):
        return None
    norm_words = _words(modules, config)
    bert = None if norm_words is None else _tokenizer(modules.transformer)
    length = _length(modules.transformer, norm_words, bert)
    if norm_words is None or bert is None or length is None:
        return None
    return StaticParts(norm_words, bert, length, normalize, prompts, similarity, hybrid_weight)


def _words(modules: Modules, config: dict[str, Any]) -> WordMeans | None:
    """The word vectors of a BERT without layers; None for any other network."""
    plain = {"model_type": "bert", "num_hidden_layers": 0}
    unusual = ("auto_map", "quantization_config", "transformers_weights", "is_decoder", "is_encoder_decoder")
    if any(config.get(key) != value for key, value in plain.items()) or any(config.get(key) for key in unusual):
        return None
    if config.get("position_embedding_type", "absolute") != "absolute":
        return None
    tensors = map_tensors(modules.transformer / "model.safetensors")
    names = {name.removeprefix("bert.").removeprefix("embeddings."): array for name, array in tensors.items()}
    words, positions, types, weight, bias = (
        names.get(name)
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


def _tokenizer(folder: Path) -> RustTokenizer | None:
    """The tokenizer of a folder, if transformers uses tokenizer.json as it is; None where that is not certain."""
    path = folder / "tokenizer_config.json"
    config = read_config(path)
    backend = read_backend(folder)
    if "added_tokens_decoder" not in config:
        config |= read_config(folder / "special_tokens_map.json")
    if any(config.get(key) for key in _UNUSUAL) or (folder / "added_tokens.json").is_file():
        return None
    if config.keys() & {"add_bos_token", "add_eos_token"}:  # even if false, transformers replaces the post-processor
        return None
    added = json.loads(backend.to_str())["added_tokens"]
    if not _special(config, "bos_token", "eos_token", *_SPECIAL) <= {token["content"] for token in added}:
        return None
    if not _stated_tokens(config) <= {(token["id"], *(token[flag] for flag in _FLAGS)) for token in added}:
        return None
    kind = config.get("tokenizer_class")
    if kind not in _AS_THEY_ARE and not (kind in _BERTS and _is_stock_bert(backend, config)):
        return None
    side = config.get("truncation_side", "right")
    return RustTokenizer(backend, truncation_side=side) if side in ("left", "right") else None


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


def _is_stock_bert(backend: Backend, config: dict[str, Any]) -> bool:
    """Whether a tokenizer is the one that transformers builds from a vocabulary and tokenizer_config.json."""
    described = json.loads(backend.to_str())
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
    return (
        described["normalizer"] == normalizer
        and described["pre_tokenizer"] == {"type": "BertPreTokenizer"}
        and (described["post_processor"] or {}).get("type") == "TemplateProcessing"
        and model == pieces
        and added == _special(config, *_SPECIAL)
    )


def _length(folder: Path, words: WordMeans | None, tokenizer: RustTokenizer | None) -> int | None:
    """The longest text in ids, as the complete reader reads it; None where it would refuse the folder."""
    sentence = read_sentence_config(folder)
    if words is None or words.norm is None or tokenizer is None or sentence.lower_case:
        return None
    if 1 + max(tokenizer.backend.get_vocab().values(), default=0) > len(words.words):
        return None
    limit = sentence.max_length or read_config(folder / "tokenizer_config.json").get("model_max_length")
    if isinstance(limit, bool) or not isinstance(limit, int | float):
        return None
    length = int(min(len(words.norm.positions), limit))
    return length if length > tokenizer.special_count else None
