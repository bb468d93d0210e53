"""Encoders whose vectors are useless are refused, with the fault and the fix."""

from __future__ import annotations

import pytest
import torch

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.text.tokenizer import Ids
from opencse.training.soundness import require_sound


@pytest.fixture
def probes(encoder: SentenceEncoder) -> list[Ids]:
    return encoder.tokenize(["a man plays a guitar", "two dogs run"])


def test_a_sound_encoder_passes_in_its_mode(encoder: SentenceEncoder, probes: list[Ids]) -> None:
    require_sound(encoder.train(), probes, "now", "do better")
    assert encoder.training
    require_sound(encoder, [], "now", "do better")


@pytest.mark.parametrize(
    ("value", "fault"),
    [(float("nan"), "the vectors hold NaN or infinite values"), (0.0, "the vector of every text is all zeros")],
)
def test_ruined_weights_are_refused(encoder: SentenceEncoder, probes: list[Ids], value: float, fault: str) -> None:
    with torch.no_grad():
        for parameter in encoder.backbone.parameters():
            parameter.fill_(value)
    with pytest.raises(UserError, match=rf"^step 3: {fault} \(pooling mean\); do better$"):
        require_sound(encoder, probes, "step 3", "do better", allow_equal=True)


def test_equal_vectors_pass_only_if_allowed(encoder: SentenceEncoder, probes: list[Ids]) -> None:
    same = [probes[0], probes[0]]
    with pytest.raises(UserError, match="every text has the same vector"):
        require_sound(encoder, same, "now", "do better")
    require_sound(encoder, same, "now", "do better", allow_equal=True)
