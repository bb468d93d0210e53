"""Checks of texts and options, and batches of texts of similar length."""

from __future__ import annotations

import numpy as np
import pytest

from opencse.encoder.batches import (
    require_options,
    require_texts,
    token_batches,
    token_budget,
)
from opencse.errors import UserError


def test_batches_hold_every_text_once_within_the_budget() -> None:
    lengths = np.random.default_rng(0).integers(1, 40, 300).tolist()
    batches = token_batches(lengths, 100, most=7)
    assert sorted(np.concatenate(batches).tolist()) == list(range(300))
    for batch in batches:
        assert len(batch) <= 7
        assert len(batch) == 1 or len(batch) * max(lengths[row] for row in batch) <= 100
    assert [batch.tolist() for batch in token_batches([500], 100)] == [[0]]
    assert token_batches([], 100) == []


def test_unknown_devices_have_the_budget_of_a_cpu() -> None:
    assert token_budget("meta") == token_budget("cpu") < token_budget("cuda")


def test_texts_and_options_are_checked() -> None:
    with pytest.raises(UserError, match="text 2 of 2 is of type int, not a string"):
        require_texts(["a", 1])
    with pytest.raises(UserError, match="half of a surrogate pair"):
        require_texts(["\ud800"])
    with pytest.raises(UserError, match="unknown precision 'int8'"):
        require_options("int8")
    with pytest.raises(UserError, match="batch_size is at least 1, not 0"):
        require_options("bf16", batch_size=0)
