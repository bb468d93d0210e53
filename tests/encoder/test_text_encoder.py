"""The protocol of everything that encodes texts: what has all of it is one, whatever it computes with."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from opencse.encoder.batches import EncodingOptions
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.static import StaticEncoder
from opencse.encoder.text_encoder import TextEncoder
from opencse.export.exported_encoder import ExportedEncoder
from opencse.text.rust_tokenizer import TokenCounter

METHODS = [name for name, value in vars(TextEncoder).items() if inspect.isfunction(value) and not name.startswith("_")]


def test_the_encoders_have_all_of_it() -> None:
    network, words = SentenceEncoder.load("opencse-mini", device="cpu"), StaticEncoder.load()
    for encoder in (network, words):
        assert isinstance(encoder, TextEncoder)
        tokenizer: TokenCounter = encoder.tokenizer
        assert tokenizer.vocabulary_size == len(network.tokenizer.hf)
        assert tokenizer.special_ids == frozenset(network.tokenizer.hf.all_special_ids)
        assert tokenizer.unknown_id == network.tokenizer.hf.unk_token_id
    assert words.weight_bytes > 0
    assert (words.device_kind, network.device_kind) == ("cpu", "cpu")
    assert not isinstance(network.backbone, TextEncoder)


@pytest.mark.parametrize("kind", [SentenceEncoder, StaticEncoder, ExportedEncoder])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_takes_the_arguments_of_the_protocol(kind: Any, method: str) -> None:
    stated = inspect.signature(getattr(TextEncoder, method)).parameters
    takes = inspect.signature(getattr(kind, method)).parameters
    options = [name for name, one in stated.items() if one.kind is inspect.Parameter.VAR_KEYWORD]
    any_name = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in takes.values())
    positional = [name for name in stated if name not in options]
    assert len(METHODS) >= 7
    assert any_name or set(takes) >= {*positional, *(EncodingOptions.__annotations__ if options else ())}
    assert list(takes)[: len(positional)] == positional
