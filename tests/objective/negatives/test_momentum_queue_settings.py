"""What a recipe may say of the momentum queue."""

from __future__ import annotations

from typing import Any

import pytest

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.objective.negatives.momentum_queue import MomentumQueue
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.settings import validate


def settings(**queue: Any) -> ObjectiveSettings:
    return validate(ObjectiveSettings, {"negatives": [{"kind": "momentum_queue", **queue}]}, "test.toml")


def build(**queue: Any) -> Objective:
    negatives = [{"kind": "in_batch"}, {"kind": "momentum_queue", **queue}]
    return Objective.from_settings(validate(ObjectiveSettings, {"negatives": negatives}, "test.toml"))


@pytest.mark.parametrize("size", [0, -3, True, 2.5, "2.5", "x", "-1x", "2.5 x", "0x", "1e3x", "2.5xx", None])
def test_a_wrong_size_is_reported_in_plain_words(size: Any) -> None:
    with pytest.raises(UserError, match=r"size is a number of sentences \(160\) or a multiple of the batch") as caught:
        settings(size=size)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"momentum": 1.0}, "less than 1"),
        ({"momentum": -0.1}, "greater than or equal to 0"),
        ({"init": "copy"}, "'pretrained' or 'random'"),
        ({"head": "none"}, "'momentum' or 'online'"),
        ({"weight": 0.0}, "greater than 0"),
        ({"moment": 0.9}, "did you mean 'momentum'"),
    ],
    ids=str,
)
def test_wrong_settings(setting: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        settings(**setting)


def test_the_defaults_are_the_papers() -> None:
    chosen = settings().negatives[0]
    assert isinstance(chosen, MomentumQueue.Settings)
    assert (chosen.size, chosen.momentum, chosen.init, chosen.head) == ("2.5x", 0.995, "pretrained", "momentum")


def test_a_size_is_a_number_or_a_multiple_of_the_batch(encoder: SentenceEncoder) -> None:
    for size, batch_size, expected in (
        (160, 64, 160),
        ("2.5x", 64, 160),
        ("1x", 7, 7),
        ("2.4x", 7, 17),
        ("0.3x", 8, 2),
    ):
        objective = build(size=size)
        assert objective.negatives_per_anchor(batch_size, 0) == expected + batch_size - 1
        objective.begin(encoder, batch_size=batch_size, seed=1)
        assert isinstance(source := objective.negatives[-1], MomentumQueue)
        assert source.queue is not None
        assert source.queue.size == len(source.queue.stored) == expected
        assert objective.negatives_per_anchor(2, 3) == expected + 1  # a queue keeps the size it has
    with pytest.raises(UserError, match=r"size 0\.1x is no sentence at a batch of 4; raise it"):
        build(size="0.1x").begin(encoder, batch_size=4, seed=1)


def test_random_weights_are_no_start_for_adapters(encoder: SentenceEncoder) -> None:
    encoder.adapted = True
    build(size=4).begin(encoder, batch_size=4, seed=0)
    with pytest.raises(UserError, match='LoRA trains none of them; set init = "pretrained"'):
        build(size=4, init="random").begin(encoder, batch_size=4, seed=0)
