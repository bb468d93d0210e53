"""Texts whose language a model does not know."""

from __future__ import annotations

import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.unknown_tokens import unknown_share, warn_of_unknown_tokens


def test_the_share_counts_no_special_tokens(encoder: SentenceEncoder) -> None:
    unknown, known = encoder.tokenizer.hf.unk_token_id, encoder.tokenize(["the"])[0]
    assert unknown_share(encoder.tokenizer, [known]) == 0
    assert unknown_share(encoder.tokenizer, [known, [unknown]]) == pytest.approx(1 / (len(known) - 1))  # type: ignore[list-item]
    assert unknown_share(encoder.tokenizer, []) == 0


def test_a_text_of_unknown_tokens_is_warned_of(encoder: SentenceEncoder) -> None:
    messages: list[str] = []
    warn_of_unknown_tokens(encoder, ["The cat sleeps."], messages.append)
    assert not messages
    warn_of_unknown_tokens(encoder, ["\u4e2d\u6587 \u6587\u5b57"], messages.append)
    (message,) = messages
    assert "100% of the texts' tokens are unknown to the model" in message
