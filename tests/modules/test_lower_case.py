"""Lower-casing as part of a tokenizer."""

from __future__ import annotations

from pathlib import Path

from opencse.modules.lower_case import lower_casing
from opencse.text.tokenizer import Tokenizer


def test_texts_are_lower_cased_once_and_special_tokens_stay(byte_level: Tokenizer, tmp_path: Path) -> None:
    byte_level.hf.save_pretrained(tmp_path)
    plain, lowered = Tokenizer.load(tmp_path), lower_casing(Tokenizer.load(tmp_path))
    assert lowered.encode(["The DOG <mask>"], 32)[0].tolist() == plain.encode(["the dog <mask>"], 32)[0].tolist()
    assert lower_casing(lowered) is lowered
