"""Reads models that are word vectors alone without torch and transformers, which take seconds to import.

These are tables of word vectors, and BERTs without layers such as the built-in encoder, with mean pooling. Where a
folder needs more than that, or holds anything unusual, nothing is returned: `opencse.model_folder.reading` opens it, or
says what is wrong with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from opencse.errors import UserError
from opencse.kernels.word_means import MOST_FACTORS, EmbeddingNorm, WordMeans
from opencse.model_folder.layout import read_config
from opencse.model_folder.listing import Modules, list_modules
from opencse.model_folder.locate import locate
from opencse.model_folder.mapped_tensors import map_tensors
from opencse.model_folder.module_folders import pools_prompt, read_pooling
from opencse.model_folder.plain_tokenizer import longest_input, read_plain_tokenizer
from opencse.model_folder.table_rows import table_rows
from opencse.model_folder.torchless_parts import TorchlessParts, bert_tensors, is_plain_bert, needs_complete_reader
from opencse.modules.pooling import Pooling


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
        return _read(folder, averaged=pooling is not None)
    except UserError:  # the complete reader says what is wrong, after it has tried all that it can
        return None


def _read(folder: Path, *, averaged: bool) -> StaticParts | None:
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
