"""Models with prompts as other people publish them, with small random weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from helpers import json_in, write_tiny_bert
from opencse.encoder.encoder import SentenceEncoder
from opencse.model_folder.layout import SENTENCE_CONFIG
from opencse.text.rust_tokenizer import RustTokenizer
from opencse.text.tokenizer import Ids, TokenisedText, Tokenizer

INSTRUCTION = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "
BGE = "Represent this sentence for searching relevant passages: "
LAYOUTS: dict[str, dict[str, Any]] = {
    "none": {"prompts": {}, "default_prompt_name": None},
    "e5": {"prompts": {"query": "query: ", "document": "passage: "}, "default_prompt_name": None},
    "e5-passage": {"prompts": {"query": "query: ", "passage": "passage: "}, "default_prompt_name": None},
    "e5-default-query": {"prompts": {"query": "query: ", "document": "passage: "}, "default_prompt_name": "query"},
    "bge": {"prompts": {"query": BGE}, "default_prompt_name": None},
    "bge-default": {"prompts": {"query": BGE}, "default_prompt_name": "query"},
    "nomic": {
        "prompts": {
            "query": "search_query: ",
            "document": "search_document: ",
            "clustering": "clustering: ",
            "classification": "classification: ",
        },
        "default_prompt_name": None,
    },
    "instruction": {"prompts": {"query": INSTRUCTION, "document": ""}, "default_prompt_name": None},
    "instruction-default": {"prompts": {"query": INSTRUCTION, "document": ""}, "default_prompt_name": "query"},
    "default-alone": {"prompts": {"sts": "text: "}, "default_prompt_name": "sts"},
    "empty": {"prompts": {"query": None, "document": "passage: "}, "default_prompt_name": "query"},
}
"""What the folder's configuration says of prompts, by a name for the layout."""


def write_prompted(folder: Path, layout: str, *, include_prompt: bool = True, normalize: bool = True) -> Path:
    """A folder of sentence-transformers: BERT, mean pooling, Normalize, and the prompts of ``layout``."""
    plain = write_tiny_bert(folder / "start", sd=0.3)
    encoder = SentenceEncoder.load(plain, pooling="mean", device="cpu")
    encoder.normalize = normalize
    encoder.save(folder)
    for file in sorted(plain.iterdir()):
        file.unlink()
    plain.rmdir()
    config = json_in(folder / SENTENCE_CONFIG)
    (folder / SENTENCE_CONFIG).write_text(json.dumps(config | LAYOUTS[layout]))
    if not include_prompt:
        pooling = folder / "1_Pooling" / "config.json"
        pooling.write_text(json.dumps(json_in(pooling) | {"include_prompt": False}))
    return folder


def prompts_in(folder: Path) -> dict[str, Any]:
    """What a folder's configuration says of prompts."""
    config = json_in(folder / SENTENCE_CONFIG)
    return {"prompts": config["prompts"], "default_prompt_name": config["default_prompt_name"]}


class Read:
    """The texts that reach any tokenizer, with what is put before them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.texts: set[str] = set()
        encode, encode_words, light_encode = Tokenizer.encode, Tokenizer.encode_words, RustTokenizer.encode

        def read(tokenizer: Tokenizer, texts: Sequence[str], limit: int | None) -> list[Ids]:
            self.texts.update(texts)
            return encode(tokenizer, texts, limit)

        def read_light(tokenizer: RustTokenizer, texts: Sequence[str], limit: int | None) -> list[Ids]:
            self.texts.update(texts)
            return light_encode(tokenizer, texts, limit)

        def read_words(tokenizer: Tokenizer, texts: Sequence[str], limit: int | None) -> list[TokenisedText]:
            self.texts.update(texts)
            return encode_words(tokenizer, texts, limit)

        monkeypatch.setattr(Tokenizer, "encode", read)
        monkeypatch.setattr(RustTokenizer, "encode", read_light)  # of encoders without torch
        monkeypatch.setattr(Tokenizer, "encode_words", read_words)

    def before(self, text: str) -> set[str]:
        """What was put before ``text``, wherever it was read."""
        return {read.removesuffix(text) for read in self.texts if read.endswith(text)}
