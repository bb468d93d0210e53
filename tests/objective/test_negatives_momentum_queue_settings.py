"""What a recipe may say of the momentum queue."""

from __future__ import annotations

from typing import Any

import pytest

from opencse.errors import UserError
from opencse.objective.negatives.momentum_queue import MomentumQueue
from opencse.objective.settings import ObjectiveSettings
from opencse.settings import validate


def settings(**queue: Any) -> ObjectiveSettings:
    return validate(ObjectiveSettings, {"negatives": [{"kind": "momentum_queue", **queue}]}, "test.toml")


@pytest.mark.parametrize("size", [0, -3, True, 2.5, "2.5", "x", "-1x", "2.5 x", "0x", "1e3x", "2.5xx", None])
def test_a_wrong_size_is_told_in_plain_words(size: Any) -> None:
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
