"""Reads a BERT's tokenizer without transformers, where transformers would use tokenizer.json as it is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opencse.errors import UserError
from opencse.model_folder.layout import read_config
from opencse.model_folder.sentence_config import read_sentence_config
from opencse.model_folder.table_rows import read_backend
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


def read_plain_tokenizer(folder: Path) -> RustTokenizer | None:
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
