"""How the functions open encoders."""

from __future__ import annotations

import pytest

from opencse.api.models import encoded, name_of, open_encoder
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.progress import Silent


def test_an_encoder_in_memory_is_taken_as_it_is() -> None:
    encoder = SentenceEncoder.load(device="cpu")
    assert open_encoder(encoder, Silent()) is encoder
    with pytest.raises(UserError, match="pooling and device are chosen when a model is loaded"):
        open_encoder(encoder, Silent(), pooling="mean")


def test_a_prompt_is_put_before_each_text() -> None:
    encoder = SentenceEncoder.load(device="cpu")
    vectors = encoded(encoder, ["kettle"], "encoding", Silent(), prompt="query: ")
    assert (vectors == encoder.encode(["query: kettle"])).all()
    assert name_of("opencse-mini") == "opencse-mini"
