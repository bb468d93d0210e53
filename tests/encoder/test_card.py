"""The parts that every model card has."""

from __future__ import annotations

from opencse.encoder.card import framed, front_matter, plain_card
from opencse.encoder.encoder import SentenceEncoder
from opencse.model_folder.layout import THIS_FOLDER
from opencse.modules.prompts import Prompts


def test_a_card_describes_the_encoder(encoder: SentenceEncoder) -> None:
    card = plain_card(encoder)
    assert card.startswith("---\n")
    assert "| vectors | 32 dimensions, pooling mean, not normalised |" in card
    assert f"| longest text | {encoder.max_length:,} ids; longer texts are truncated |" in card
    assert card.count(THIS_FOLDER) == 3
    assert "encode_query" not in card


def test_prompts_and_limits_are_in_the_card(encoder: SentenceEncoder) -> None:
    encoder.prompts = Prompts({"query": "query: "})
    card = framed("# A title\n\n", encoder, limits=["Short texts only."])
    assert "# A title" in card
    assert "- Short texts only.\n" in card
    assert "encode_query" in card


def test_a_base_model_is_named_if_it_is_on_the_hub() -> None:
    assert "base_model: someone/model" in front_matter("onnx", ["onnx"], "someone/model")
    assert "base_model" not in front_matter("onnx", ["onnx"], "/a/folder")
