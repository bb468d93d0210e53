"""The [objective] table of a recipe: its defaults and its errors."""

from __future__ import annotations

from typing import Any

import pytest

from opencse.errors import UserError
from opencse.objective.objective import Objective
from opencse.objective.settings import ObjectiveSettings
from opencse.settings import validate


def build(**data: Any) -> Objective:
    return Objective.from_settings(validate(ObjectiveSettings, data, "test.toml"))


TERM_ALONE = {"negatives": [], "terms": [{"kind": "cosent"}]}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"negatives": [{"kind": "in_bach"}]}, ["in_bach", "in_batch", "hard"]),
        ({"terms": [{"kind": "nothing"}]}, ["terms.0", "nothing", "mlm"]),
        ({"view": {"kind": "nothing"}}, ["view", "nothing", "dropout", "next_sentence", "pair"]),
        ({"negatives": [{"kind": "in_batch", "wieght": 1.0}]}, ["wieght", "did you mean 'weight'"]),
        ({"negatives": [{"kind": "hard", "alpha": 0.0}]}, ["alpha", "greater than 0"]),
        ({"negatives": [{"kind": "hard", "alpha": float("inf")}]}, ["alpha", "finite"]),
        ({"temperature": 0.0}, ["temperature", "greater than 0"]),
        ({"temperature": float("inf")}, ["temperature", "finite"]),
        ({"temperature": float("nan")}, ["temperature"]),
        ({"label_smoothing": 1.0}, ["label_smoothing", "less than 1"]),
        ({"similarity": "euclid"}, ["similarity", "cosine", "dot", "euclid"]),
        ({"view": {"kind": "next_sentence", "window": 2}}, ["window", "1 or 3"]),
        ({"terms": [{"kind": "mlm", "rate": 1.0}]}, ["rate", "less than 1"]),
        (TERM_ALONE | {"positive": {"copies": 2}}, ["positive.copies is read by a contrast alone"]),
        (TERM_ALONE | {"temperature": 0.1, "loss": "binary"}, ["temperature and loss are read by a contrast alone"]),
        (
            TERM_ALONE | {"mask_duplicates": False},
            ["mask_duplicates is read", "keep the default: mask_duplicates = True"],
        ),
        ({"partition": "joint"}, ["partition = joint is of two directions", "directions = both"]),
    ],
    ids=str,
)
def test_wrong_settings_are_reported_in_one_line(data: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        build(**data)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("test.toml: ")
    for word in words:
        assert word in message


def test_the_default_is_unsupervised_simcse() -> None:
    settings = validate(ObjectiveSettings, {}, "test")
    assert settings.view.kind == "dropout"
    assert [s.kind for s in settings.negatives] == ["in_batch"]
    assert (settings.temperature, settings.similarity, settings.label_smoothing) == (0.05, "cosine", 0.0)
    assert settings.mask_duplicates
