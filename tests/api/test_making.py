"""`opencse.static` and `opencse.whiten`: options that contradict each other."""

from __future__ import annotations

from pathlib import Path

import pytest

import opencse
from opencse.errors import UserError

TEXTS = ["The kettle boils.", "Snow fell on the hills.", "The train is late.", "A dog barks at night."]


def test_a_vocabulary_is_for_a_new_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--vocabulary is for a new tokenizer"):
        opencse.static(TEXTS, tmp_path / "out", model="opencse-mini", vocabulary=100)
    assert not (tmp_path / "out").exists()


def test_whitening_keeps_the_given_encoder(tmp_path: Path) -> None:
    encoder = opencse.SentenceEncoder(device="cpu")
    before = encoder.encode(TEXTS)
    whitened = opencse.whiten(encoder, TEXTS, tmp_path / "white", dimension=2)
    assert whitened.encoder.encode(TEXTS).shape == (4, 2)
    assert (encoder.encode(TEXTS) == before).all()
