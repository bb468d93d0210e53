"""A text and the encoder of counted words made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from counted_words import SMALL
from helpers import write_lines
from opencse.making.static import Static, build
from opencse.text.corpus import Corpus, tokenise
from opencse.text.readers import Source
from opencse.text.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer(tiny_folder: Path) -> Tokenizer:
    return Tokenizer.load(tiny_folder)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer, sentences: list[str]) -> Source:
    """Six hundred sentences, and at the end a word that stands in none of them, alone in its text."""
    path = tmp_path_factory.mktemp("text") / "a.txt"
    seen = {token for text in sentences[:600] for token in tokenizer.hf.tokenize(text)}
    lone = min(token for token in tokenizer.hf.get_vocab() if token.isalpha() and token.isascii() and token not in seen)
    write_lines(path, [*sentences[:600], lone])
    return Source(str(path))


@pytest.fixture(scope="module")
def corpus(source: Source, tokenizer: Tokenizer) -> Corpus:
    return tokenise(source, tokenizer, SMALL.positions)


@pytest.fixture(scope="module")
def made(corpus: Corpus, tokenizer: Tokenizer) -> Static:
    return build(corpus, tokenizer, SMALL)
